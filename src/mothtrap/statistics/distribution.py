"""How the values of an array are spread: a histogram of fixed bins, and quantiles."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

LOWEST_POWER: Final = -40
BINS: Final = 64
"""Powers of two from 2^-40 to 2^23: what fp32, bf16, fp16 and fp8 tell apart in training."""

EDGES: Final = 2.0 ** np.arange(LOWEST_POWER, LOWEST_POWER + BINS)
"""Lower edges of the bins; the first also holds what is smaller, the last what is larger."""
EDGES.setflags(write=False)

QUANTILES: Final = (0.0, 0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99, 1.0)

_BLOCK: Final = 1 << 18  # elements at a time: temporaries stay in a CPU's cache


def histogram(array: Array) -> npt.NDArray[np.int64]:
    """Count values by sign and power of two.

    Args:
        array: real, integer, boolean or complex numbers of any shape; of complex ones the
            modulus is meant.

    Returns:
        int64, shape (2, 64): negative values, then positive ones; bin `i` holds those
        whose magnitude is at least `EDGES[i]` and below twice that, the first and last
        also all smaller and larger ones. Zeros, NaN and infinities are in no bin.
    """
    flat = _real(array).reshape(-1)
    counts = np.zeros((2, BINS), np.int64)
    for at in range(0, len(flat), _BLOCK):
        values = flat[at : at + _BLOCK].astype(np.float64)
        values = values[np.isfinite(values) & (values != 0)]
        power = np.frexp(values)[1] - 1
        bins = np.clip(power - LOWEST_POWER, 0, BINS - 1) + BINS * (values > 0)
        counts += np.bincount(bins, minlength=2 * BINS).reshape(2, BINS)
    return counts


def quantiles(array: Array) -> npt.NDArray[np.float64]:
    """Return the quantiles `QUANTILES` of the finite values, interpolated linearly.

    Args:
        array: as for `histogram`.

    Returns:
        float64, shape (9,); NaN when there is no finite value.
    """
    values = _real(array).reshape(-1).astype(np.float64)
    finite = values[np.isfinite(values)]
    if not len(finite):
        return np.full(len(QUANTILES), np.nan)
    found: npt.NDArray[np.float64] = np.quantile(finite, QUANTILES)
    return found


Distribution = Callable[[Array], Array]
DISTRIBUTIONS: Final[Mapping[str, Distribution]] = MappingProxyType(
    {"histogram": histogram, "quantiles": quantiles}
)
"""By name; each returns an array of a fixed shape and type."""

SHAPES: Final = MappingProxyType(
    {"histogram": ((2, BINS), "int64"), "quantiles": ((len(QUANTILES),), "float64")}
)
"""Shape and element type of the results."""


def _real(array: Array) -> Array:
    return np.abs(array) if np.iscomplexobj(array) else array
