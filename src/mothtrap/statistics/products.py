"""Products of arrays without BLAS.

NumPy's BLAS distributes larger products over threads, which then busy-wait: for 0.1 s after each
product, they take a core from the training (OpenBLAS 0.3, measured by the threads' times).

Shape suffixes: N = elements, B = blocks, R = rows, F and G = features.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
BLOCK = 4096
"""Number of elements that are summed in the type of the values; block sums are added in float64."""


def dot(first_N: Array, second_N: Array) -> float:
    """Return the sum of the products of elements, added in order."""
    whole = len(first_N) - len(first_N) % BLOCK
    blocks = [one[:whole].reshape(-1, BLOCK) for one in (first_N, second_N)]
    sums_B = np.einsum("bn,bn->b", *blocks)
    rest = np.einsum("n,n->", first_N[whole:], second_N[whole:])
    return float(sums_B.sum(dtype=np.float64) + rest)


def norm(values_N: Array) -> float:
    """Return the square root of the sum of squares."""
    return math.sqrt(dot(values_N, values_N))


def correlation(first_N: Array, second_N: Array) -> float:
    """Return Pearson's correlation coefficient; NaN if an input is constant."""
    first_N, second_N = first_N - first_N.mean(), second_N - second_N.mean()
    spread = norm(first_N) * norm(second_N)
    return max(-1.0, min(1.0, dot(first_N, second_N) / spread)) if spread > 0 else math.nan


def between(first_RF: Array, second_RG: Array) -> Array:
    """Return the products of all pairs of columns, shape (F, G)."""
    found: Array = np.einsum("rf,rg->fg", first_RF, second_RG)
    return found
