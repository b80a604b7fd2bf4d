"""Digests as numbers of a step: used to compare two runs bit for bit.

A digest is the scalar `digest` (or `digest_sum`) of a step. Its owner names the data:

    weight:NAME  bias:NAME  buffer:NAME   state before the step
    batch:LOADER.PLACE                    a tensor of a loader, at its place in the batch
    input:NAME                            an argument of the model that is not from a loader
    target                                a tensor that a loss was called with
    rng.python  rng.numpy  rng.torch      random states, just before the model was called
    gradient:NAME                         as it is applied
    rows:NAME                             the rows of a batch, regardless of their order

A step of several micro-batches has several digests of one owner, in order.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

ROWS: Final = "rows:"
"""Sums of the digests of rows: independent of the order of the rows, and additive."""

BITS: Final = 53
"""Number of bits of a digest that are kept: a float64 holds this many exactly."""
MODULUS: Final = 1 << BITS


def as_scalar(digest: int) -> float:
    """Return the lowest bits of a digest as a number that a scalar can represent exactly."""
    return float(digest & (MODULUS - 1))


def as_scalars(digest_N: npt.NDArray[np.uint64]) -> list[float]:
    """Return `as_scalar` of many digests; uint64, shape (N,)."""
    scalars: list[float] = (digest_N & np.uint64(MODULUS - 1)).astype(np.float64).tolist()
    return scalars
