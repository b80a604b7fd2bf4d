"""Arguments and small learnable data of the faulty programs."""

import argparse

import torch


def arguments():
    """Parse `--healthy` and `--seed N`, use one thread, seed torch."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--healthy", action="store_true", help="run the repaired twin")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(options.seed)
    return options


def classes(count=4, *, features=12, spread=1.0):
    """Yield batches of 32 rows without end: inputs (32, features), labels (32,)."""
    centers = 1.5 * torch.randn(count, features)
    while True:
        labels = torch.randint(0, count, (32,))
        yield centers[labels] + spread * torch.randn(32, features), labels


def curve(*, features=6, rows=32):
    """Yield batches without end: inputs (rows, features), targets (rows, 1)."""
    direction = torch.randn(features, 1) / features**0.5
    while True:
        inputs = torch.randn(rows, features)
        yield inputs, torch.tanh(inputs @ direction) + 0.1 * torch.randn(rows, 1)
