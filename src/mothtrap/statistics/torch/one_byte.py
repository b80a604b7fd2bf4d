"""Tensors of one byte an element, on the host: counted byte by byte, all else follows exactly.

All types of fp8, truth values and the smallest integers. A byte stands for one value, so its
256 tallies say all that statistics ask, in float64.

Shape suffixes: N = elements, V = the 256 values, T = tensors, F = fields, B = bins.
"""

from __future__ import annotations

import functools
from typing import Final

import numpy as np
import numpy.typing as npt
import torch

from mothtrap.statistics.exponents import BINS, Counts, count_exponents
from mothtrap.statistics.summary import COLUMN, WIDTH, Floats
from mothtrap.statistics.torch import compiled

VALUES: Final = 256
_BLOCK: Final = 1 << 18  # elements at a time: what numpy makes of them stays in a CPU's cache


def tallies(flat_N: torch.Tensor) -> Counts:
    """Count the elements of each byte.

    Args:
        flat_N: on the host, contiguous, one byte an element, N > 0.

    Returns:
        int64, shape (V,).
    """
    byte_N = flat_N.view(torch.uint8)
    places_13 = compiled.places([byte_N], compiled.TALLIED)
    if places_13[0, 2] >= 0:
        whole: Counts = compiled.tallies(places_13)[0]
        return whole
    found = np.zeros(VALUES, np.int64)
    for block_N in torch.split(byte_N, _BLOCK):
        found += np.bincount(block_N.numpy(), minlength=VALUES)
    return found


def row(tally_V: Counts, dtype: torch.dtype) -> Floats:
    """Return all columns, float64, shape (F,), as described in `summary`.

    Args:
        tally_V: of at least one element.
        dtype: what the bytes stand for.
    """
    value_V = values(dtype)
    finite_V = np.isfinite(value_V) & (tally_V > 0)
    value_V, count_V = value_V[finite_V], tally_V[finite_V]
    unordered = int(tally_V[np.isnan(values(dtype))].sum())
    count, finite = int(tally_V.sum()), int(count_V.sum())
    row_F = np.full(WIDTH, np.nan)
    found = {
        "count": count,
        "nan": unordered,
        "inf": count - finite - unordered,
        "zero": int(count_V[value_V == 0].sum()),
        "deviation_l2": 0.0,
        "abs_sum": float(np.dot(count_V, np.abs(value_V))),
        "l2": float(np.sqrt(np.dot(count_V, value_V**2))),
    }
    if finite:
        # About one of them, so that equal ones do not deviate.
        apart_V = value_V - value_V[0]
        mean = float(np.dot(count_V, apart_V)) / finite
        deviation = float(np.sqrt(np.dot(count_V, (apart_V - mean) ** 2)))
        found |= {"min": value_V.min(), "max": value_V.max(), "deviation_l2": deviation}
        found["mean"] = float(value_V[0]) + mean
    for name, number in found.items():
        row_F[COLUMN[name]] = number
    return row_F


def exponents(tally_V: Counts, dtype: torch.dtype) -> Counts:
    """Return counts by sign and power of two, int64, shape (2, B), of what was tallied."""
    place_V = _places(dtype)
    counted_V = place_V >= 0
    found = np.zeros((2, BINS), np.int64)
    np.add.at(found.reshape(-1), place_V[counted_V], tally_V[counted_V])
    return found


@functools.cache
def values(dtype: torch.dtype) -> Floats:
    """Return what each byte stands for, float64, shape (V,); not to be written to."""
    byte_V = torch.arange(VALUES, dtype=torch.uint8)
    held_V = byte_V != 0 if dtype is torch.bool else byte_V.view(dtype)
    with np.errstate(invalid="ignore"):  # of NaN
        found: Floats = held_V.to(torch.float32).numpy().astype(np.float64)
    found.setflags(write=False)
    return found


@functools.cache
def _places(dtype: torch.dtype) -> npt.NDArray[np.intp]:
    """The bin of each byte, -1 where it is in none."""
    counts = [count_exponents(value).reshape(-1) for value in values(dtype)]
    return np.array([found.argmax() if found.any() else -1 for found in counts], np.intp)
