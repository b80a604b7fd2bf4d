"""Options, seed, and scores of the programs of the ladder."""

import argparse

import numpy as np
import torch


def options(**faults):
    """Parse `--seed N` and one option for each fault, whose default is healthy."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=0)
    for name, default in faults.items():
        parser.add_argument(f"--{name.replace('_', '-')}", type=float, default=default)
    found = parser.parse_args()
    np.random.seed(found.seed)
    torch.manual_seed(found.seed)
    torch.set_num_threads(1)
    return found


def digits():
    """Return standardized train and test digits of scikit-learn: x, y, x_test, y_test."""
    from sklearn.datasets import load_digits

    data = load_digits()
    x, y = torch.tensor(data.data, dtype=torch.float32), torch.tensor(data.target)
    order = torch.from_numpy(np.random.RandomState(7).permutation(len(x)))
    x, y = (x[order] - 4.9) / 6.0, y[order]
    return x[:1400], y[:1400], x[1400:], y[1400:]


def batches(rows, size):
    """Yield indices of the rows of each batch, without end, shuffled in each pass."""
    while True:
        order = torch.randperm(rows)
        yield from order.split(size)


def score(value):
    """Print the score of the run."""
    print(f"score={float(value):.6g}")
