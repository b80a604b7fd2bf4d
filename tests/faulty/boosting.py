"""Arguments and tables of the faulty programs that boost trees."""

import argparse

import numpy as np


def arguments():
    """Parse `--healthy` and `--seed N`; the generator is seeded with it."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--healthy", action="store_true", help="run the repaired twin")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    options.random = np.random.default_rng(options.seed)
    return options


def noisy_classes(random, rows=1500, columns=10):
    """Return a table and labels 0 and 1, a tenth of which are wrong."""
    x = random.normal(size=(rows, columns)).astype(np.float32)
    y = x[:, 0] * x[:, 1] + x[:, 2] + 0.5 * x[:, 3] > 0
    return x, (y ^ (random.random(rows) < 0.1)).astype(int)
