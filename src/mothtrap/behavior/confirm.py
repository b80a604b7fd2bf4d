"""Confirmation of suspicions: tests on the other half of the rows, and the choice among many.

Shape suffixes: R = rows, P = p-values.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

FALSE_DISCOVERIES = 0.01
"""Share of confirmed findings that may be chance (Benjamini and Hochberg, 1995); chosen by hand."""
LEAST_ROWS = 30
"""Minimum number of rows per group in a test of means; the usual rule of thumb."""


def split_halves(count: int, rng: np.random.Generator, strata_R: Sequence[object] | None = None):  # type: ignore[no-untyped-def]
    """Return two disjoint masks (R,) that halve the rows of each stratum.

    Args:
        count: Number of rows.
        rng: Random generator that assigns the rows.
        strata_R: groups whose shares both halves keep, such as classes.
    """
    first_R = np.zeros(count, bool)
    groups = np.zeros(count, int)
    if strata_R is not None:
        groups = np.unique(np.asarray(strata_R), return_inverse=True)[1]
    for group in np.unique(groups):
        rows = rng.permutation(np.flatnonzero(groups == group))
        half = (len(rows) + int(rng.integers(2))) // 2
        first_R[rows[:half]] = True
    return first_R, ~first_R


def benjamini_hochberg(p_P: Sequence[float], rate: float = FALSE_DISCOVERIES) -> list[bool]:
    """Return which hypotheses are rejected at a false discovery rate."""
    if not len(p_P):
        return []
    values = np.asarray(p_P, float)
    order = np.argsort(values)
    below = values[order] <= rate * np.arange(1, len(values) + 1) / len(values)
    last = int(np.flatnonzero(below)[-1]) if below.any() else -1
    kept = np.zeros(len(values), bool)
    kept[order[: last + 1]] = True
    return [bool(each) for each in kept]


def welch(first_R: Floats, second_R: Floats) -> tuple[float, tuple[float, float]]:
    """Test whether the first group has the larger mean (Welch, 1947).

    Returns:
        The one-sided p-value, and the 99 % interval of the difference of the means.
    """
    from scipy.special import stdtr, stdtrit

    n, m = len(first_R), len(second_R)
    if n < 2 or m < 2:
        return 1.0, (-math.inf, math.inf)
    gap = float(first_R.mean() - second_R.mean())
    a, b = float(first_R.var(ddof=1)) / n, float(second_R.var(ddof=1)) / m
    if a + b <= 0:
        return (0.5 if gap == 0 else float(gap < 0)), (gap, gap)
    error = math.sqrt(a + b)
    freedom = (a + b) ** 2 / (a * a / (n - 1) + b * b / (m - 1))
    width = float(stdtrit(freedom, 0.995)) * error
    return float(stdtr(freedom, -gap / error)), (gap - width, gap + width)


def pooled(first_R: Floats, second_R: Floats) -> float:
    """Return the one-sided p-value that the first mean is larger, with a common variance.

    Welch's test trusts the variance of each group. A group with few errors by chance has a small
    variance, so the test finds too much when errors are rare. The common variance avoids this.
    """
    from scipy.special import stdtr

    n, m = len(first_R), len(second_R)
    if min(n, m) < 1 or n + m < 3:
        return 1.0
    gap = float(first_R.mean() - second_R.mean())
    spread = float(np.concatenate([first_R, second_R]).std(ddof=1))
    if spread == 0:
        return 1.0
    return float(stdtr(n + m - 2, -gap / (spread * math.sqrt(1 / n + 1 / m))))


def mean_above(value_R: Floats, limit: float = 0.0) -> tuple[float, tuple[float, float]]:
    """Test whether a mean is above a limit; p-value and 99 % interval of the mean (Student)."""
    from scipy.special import stdtr, stdtrit

    n = len(value_R)
    if n < 2:
        return 1.0, (-math.inf, math.inf)
    mean, error = float(value_R.mean()), float(value_R.std(ddof=1)) / math.sqrt(n)
    if error == 0:
        return float(mean <= limit), (mean, mean)
    width = float(stdtrit(n - 1, 0.995)) * error
    return float(stdtr(n - 1, (limit - mean) / error)), (mean - width, mean + width)


def correlation(first_R: Floats, second_R: Floats) -> tuple[float, float]:
    """Return Pearson's correlation, and the one-sided p-value that it is positive."""
    from scipy.special import stdtr

    n = len(first_R)
    spread = float(first_R.std() * second_R.std())
    if n < 3 or spread == 0:
        return 0.0, 1.0
    product = (first_R - first_R.mean()) * (second_R - second_R.mean())
    r = min(max(float(product.mean()) / spread, -1.0), 1.0)
    if abs(r) == 1:
        return r, float(r < 0)
    return r, float(stdtr(n - 2, -r * math.sqrt((n - 2) / (1 - r * r))))


def ljung_box(value_R: Floats, lags: int = 10) -> tuple[float, float]:
    """Return the first autocorrelation, and the p-value of none up to a lag (Ljung, Box, 1978)."""
    from scipy.special import chdtrc

    n = len(value_R)
    centred = value_R - value_R.mean()
    power = float(centred @ centred)
    if power == 0 or n <= lags + 1:
        return 0.0, 1.0
    auto = [float(centred[k:] @ centred[:-k]) / power for k in range(1, lags + 1)]
    q = n * (n + 2) * sum(r * r / (n - k) for k, r in enumerate(auto, 1))
    return auto[0], float(chdtrc(lags, q))


def binomial_above(count: int, trials: int, share: float) -> float:
    """Return the probability of at least `count` successes for a given success rate."""
    from scipy.special import bdtrc

    return 1.0 if count <= 0 else float(bdtrc(count - 1, trials, share))


def poisson_above(count: int, expected: float) -> float:
    """Return the probability of `count` or more events, given the expected number."""
    from scipy.special import pdtrc

    return 1.0 if count <= 0 else float(pdtrc(count - 1, max(expected, 1e-12)))


def poisson_bound(count: int, p: float = 0.001) -> float:
    """Return an upper bound of the expected number of events, given a count (Garwood, 1936)."""
    from scipy.special import gammaincinv

    return float(gammaincinv(count + 1, 1 - p))


def share_bound(count: int, trials: int, p: float = 0.005) -> float:
    """Return a lower bound of a share, given a count of successes (Clopper and Pearson, 1934)."""
    from scipy.special import betaincinv

    return 0.0 if count <= 0 else float(betaincinv(count, trials - count + 1, p))
