"""Distribution of values over powers of two: the bins, and counting with NumPy.

Shape suffixes: T = tensors, B = bins, N = elements.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Counts = npt.NDArray[np.int64]

LOWEST_POWER: Final = -40
BINS: Final = 64
"""Powers of two from 2^-40 to 2^23: the range of fp32, bf16, fp16 and fp8 values in training."""

EDGES: Final = 2.0 ** np.arange(LOWEST_POWER, LOWEST_POWER + BINS)
"""Lower edges of the bins; the first and the last bin are open-ended."""
EDGES.setflags(write=False)

_BLOCK: Final = 1 << 18  # elements per block, so that temporaries stay in a CPU's cache
_BIAS: Final = 1023
_CODES: Final = 1 << 12
_NOT_FINITE: Final = 0x7FF
"""First twelve bits of a float64: its sign, and its biased exponent."""
_STARTS: Final = (0, *range(_BIAS + LOWEST_POWER + 1, _BIAS + LOWEST_POWER + BINS))
_NEGATIVE_ZERO: Final = np.iinfo(np.int64).min


def count_exponents(array: Array) -> Counts:
    """Count values by sign and power of two.

    Args:
        array: real, integer, boolean or complex numbers of any shape; complex numbers count as
            their real and imaginary parts, two elements each.

    Returns:
        int64, shape (2, B): negative values, then positive ones. Bin `i` counts values whose
        magnitude is at least `EDGES[i]` and below twice that; the first and last bins also count
        all smaller and larger values. Zeros, NaN and infinities are in no bin. Counts of parts add
        up to the counts of the whole.
    """
    flat = np.ascontiguousarray(array).reshape(-1)
    if np.iscomplexobj(flat):
        flat = flat.view(flat.real.dtype)
    counts = np.zeros((2, BINS), np.int64)
    with np.errstate(all="ignore"):  # NaN, Inf and values beyond float64 are valid data here
        for at in range(0, len(flat), _BLOCK):
            counts += _count(flat[at : at + _BLOCK].astype(np.float64))
    return counts


def _count(values_N: npt.NDArray[np.float64]) -> Counts:
    bits_N = values_N.view(np.int64)
    code_N = (bits_N >> 52) & (_CODES - 1)
    positive, negative = np.bincount(code_N, minlength=_CODES).reshape(2, -1)
    positive[0] -= np.count_nonzero(bits_N == 0)
    negative[0] -= np.count_nonzero(bits_N == _NEGATIVE_ZERO)
    by_sign = np.stack([negative, positive])[:, :_NOT_FINITE]
    counts: Counts = np.add.reduceat(by_sign, _STARTS, axis=1)
    return counts
