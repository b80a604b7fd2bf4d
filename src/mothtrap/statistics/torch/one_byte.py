"""Host tensors with one byte per element: statistics follow exactly from counts of byte values.

These are all fp8 types, booleans and 8-bit integers. Each byte represents one value, so 256 counts
determine all statistics, in float64.

Shape suffixes: N = elements, V = the 256 values, T = tensors, F = fields, B = bins.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt
import torch

from mothtrap.statistics.exponents import BINS, Counts, count_exponents
from mothtrap.statistics.summary import COLUMN, WIDTH, Floats
from mothtrap.statistics.torch import compiled
from mothtrap.statistics.torch.in_place import as_array

VALUES: Final = 256
_BLOCK: Final = 1 << 18  # elements per block, so that NumPy's temporaries stay in a CPU's cache


def tallies(flats: Sequence[torch.Tensor]) -> Counts:
    """Count the elements with each byte value.

    Args:
        flats: contiguous on the host, shape (N,), one byte per element, N > 0.

    Returns:
        int64, shape (T, V).
    """
    bytes_T = [flat_N.view(torch.uint8) for flat_N in flats]
    places_T3 = compiled.places(bytes_T, compiled.TALLIED)
    if len(flats) and (places_T3[:, 2] >= 0).all():
        return compiled.tallies(places_T3)
    found = np.zeros((len(flats), VALUES), np.int64)
    for tally_V, byte_N in zip(found, bytes_T, strict=True):
        for block_N in torch.split(byte_N, _BLOCK):
            tally_V += np.bincount(as_array(block_N), minlength=VALUES)
    return found


def rows(flats: Mapping[int, torch.Tensor]) -> dict[int, Floats]:
    """Return all columns, float64, shape (F,), as described in `summary`, by the keys.

    Args:
        flats: as for `tallies`.
    """
    alike: dict[torch.dtype, list[int]] = {}
    for index, flat_N in flats.items():
        alike.setdefault(flat_N.dtype, []).append(index)
    found: dict[int, Floats] = {}
    for dtype, order in alike.items():
        rows_TF = _rows(tallies([flats[i] for i in order]), values(dtype))
        found |= dict(zip(order, rows_TF, strict=True))
    return found


def _rows(tally_TV: Counts, value_V: Floats) -> Floats:
    finite_V = np.isfinite(value_V)
    nan_T = tally_TV[:, np.isnan(value_V)].sum(axis=1)
    count_TV, value_V = tally_TV[:, finite_V], value_V[finite_V]
    count_T, finite_T = tally_TV.sum(axis=1), count_TV.sum(axis=1)
    held_TV = count_TV > 0
    low_T = np.where(held_TV, value_V, np.inf).min(axis=1)
    # Relative to one value, so that equal values have no deviation.
    apart_TV = value_V - np.where(finite_T > 0, low_T, 0.0)[:, None]
    mean_T = (count_TV * apart_TV).sum(axis=1) / np.maximum(finite_T, 1)
    squared_TV = (apart_TV - mean_T[:, None]) ** 2
    absent_T = np.where(finite_T > 0, 0.0, np.nan)
    rows_TF = np.full((len(tally_TV), WIDTH), np.nan)
    found = {
        "count": count_T,
        "nan": nan_T,
        "inf": count_T - finite_T - nan_T,
        "zero": count_TV[:, value_V == 0].sum(axis=1),
        "min": low_T + absent_T,
        "max": np.where(held_TV, value_V, -np.inf).max(axis=1) + absent_T,
        "mean": low_T + mean_T + absent_T,
        "deviation_l2": np.sqrt((count_TV * squared_TV).sum(axis=1)),
        "abs_sum": count_TV @ np.abs(value_V),
        "l2": np.sqrt(count_TV @ value_V**2),
    }
    for name, column_T in found.items():
        rows_TF[:, COLUMN[name]] = column_T
    return rows_TF


def exponents(flats: Mapping[int, torch.Tensor]) -> dict[int, Counts]:
    """Return counts by sign and power of two, int64, shape (2, B), by the keys.

    Args:
        flats: as for `tallies`.
    """
    found: dict[int, Counts] = {}
    for (index, flat_N), tally_V in zip(flats.items(), tallies([*flats.values()]), strict=True):
        place_V = _places(flat_N.dtype)
        whole_B = np.bincount(place_V, tally_V, minlength=2 * BINS + 1)[: 2 * BINS]
        found[index] = whole_B.astype(np.int64).reshape(2, BINS)
    return found


@functools.cache
def values(dtype: torch.dtype) -> Floats:
    """Return the value of each byte, float64, shape (V,); read-only."""
    byte_V = torch.arange(VALUES, dtype=torch.uint8)
    held_V = byte_V != 0 if dtype is torch.bool else byte_V.view(dtype)
    with np.errstate(invalid="ignore"):  # raised for NaN
        found: Floats = as_array(held_V.to(torch.float32)).astype(np.float64)
    found.setflags(write=False)
    return found


@functools.cache
def _places(dtype: torch.dtype) -> npt.NDArray[np.intp]:
    """Return the bin of each byte, negative values first; the number of bins stands for no bin."""
    counts = [count_exponents(value).reshape(-1) for value in values(dtype)]
    return np.array([found.argmax() if found.any() else 2 * BINS for found in counts], np.intp)
