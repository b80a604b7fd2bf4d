"""Arguments and tables of the cases; tells nobody which twin is running."""

import argparse
import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np


def start():
    """Parse `--healthy`, `--seed N` and `--rounds N`; the generator is seeded."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--healthy", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--rounds", type=int, default=120)
    options = parser.parse_args()
    options.rng = np.random.default_rng(options.seed)
    return options


def loans(rng, rows=3000, rate=0.35):
    """A table of applicants as a frame, and who did not pay back."""
    import pandas

    income = rng.lognormal(10, 0.5, rows)
    debt = income * rng.beta(2, 4, rows)
    age = rng.integers(18, 80, rows)
    years = np.minimum(rng.exponential(6, rows), age - 17)
    asked = rng.lognormal(9, 0.7, rows)
    late = rng.poisson(0.6, rows)
    score = (
        2.2 * debt / income + 0.5 * late - 0.06 * years + 0.4 * np.log(asked / income)
        + 0.4 * rng.normal(size=rows)
    )
    frame = pandas.DataFrame(
        {"income": income, "debt": debt, "age": age, "years": years, "asked": asked, "late": late}
    )
    return frame, (score > np.quantile(score, 1 - rate)).astype(int)


def houses(rng, rows=3000):
    """A table of houses as an array, and their prices."""
    size = rng.gamma(6, 20, rows)
    age = rng.uniform(0, 100, rows)
    far = rng.exponential(8, rows)
    floor = rng.integers(0, 9, rows)
    noise = rng.normal(size=(rows, 3))
    price = 2.0 * size - 0.6 * age + 60 * np.exp(-far / 5) + 0.002 * (age - 50) ** 2
    price = price + 3.0 * floor + 18 * rng.normal(size=rows)
    return np.column_stack([size, age, far, floor, noise]), price


def split(x, y, share=0.7):
    """Split rows, which are in no order."""
    cut = int(len(y) * share)
    if hasattr(x, "iloc"):
        return x.iloc[:cut], y[:cut], x.iloc[cut:], y[cut:]
    return x[:cut], y[:cut], x[cut:], y[cut:]
