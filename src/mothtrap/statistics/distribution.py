"""Quantiles of an array, and its distribution stored as an array."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from mothtrap.statistics.exponents import BINS

Array = npt.NDArray[Any]

QUANTILES: Final = (0.0, 0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99, 1.0)


def quantiles(array: Array) -> npt.NDArray[np.float64]:
    """Return the quantiles `QUANTILES` of the finite values, with linear interpolation.

    Args:
        array: real, integer, boolean or complex numbers of any shape; for complex numbers, the
            modulus is used.

    Returns:
        float64, shape (9,); NaN if there is no finite value.
    """
    real = np.abs(array) if np.iscomplexobj(array) else array
    values = real.reshape(-1).astype(np.float64)
    finite = values[np.isfinite(values)]
    if not len(finite):
        return np.full(len(QUANTILES), np.nan)
    found: npt.NDArray[np.float64] = np.quantile(finite, QUANTILES)
    return found


EXPONENTS: Final = "exponents"
"""Computed from a tensor in place: `statistics.exponents.count_exponents`."""

DISTRIBUTIONS: Final[Mapping[str, Callable[[Array], Array]]] = MappingProxyType(
    {"quantiles": quantiles}
)
"""Distributions computed from copies, by name; each returns an array of a fixed shape and type."""

SHAPES: Final = MappingProxyType(
    {EXPONENTS: ((2, BINS), "int64"), "quantiles": ((len(QUANTILES),), "float64")}
)
"""Shape and element type of statistics that are arrays."""
