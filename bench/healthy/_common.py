"""Seed and data (scikit-learn's digits) shared by the programs here."""

import argparse
import random

import numpy as np
import torch


def seeded(**more):
    """Parse `--seed N` and further options `name=default`, seed everything, use one thread."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=0)
    for name, default in more.items():
        parser.add_argument(f"--{name}", type=type(default), default=default)
    options = parser.parse_args()
    random.seed(options.seed)
    np.random.seed(options.seed)
    torch.manual_seed(options.seed)
    torch.set_num_threads(1)
    return options


def digits(*, image=False, held_out=0.2):
    """Return standardised train and test digits: x, y, x_test, y_test."""
    from sklearn.datasets import load_digits

    data = load_digits()
    x = torch.tensor(data.data, dtype=torch.float32)
    x = (x - 4.9) / 6.0
    y = torch.tensor(data.target)
    order = torch.from_numpy(np.random.RandomState(7).permutation(len(x)))
    x, y = x[order], y[order]
    if image:
        x = x.view(-1, 1, 8, 8)
    cut = int(len(x) * (1 - held_out))
    return x[:cut], y[:cut], x[cut:], y[cut:]
