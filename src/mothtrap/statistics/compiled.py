"""Statistics of arrays in plain memory, computed by the compiled part of the package.

It reads an array in place, once, without temporaries, and is 4 to 10 times as fast as operations of
an array library. It takes addresses, so the memory may belong to any library. Installations without
a C compiler do not have it.

Shape suffixes: T = arrays, F = fields, N = bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from mothtrap.statistics import built
from mothtrap.statistics.digest import Digests
from mothtrap.statistics.summary import COLUMN, WIDTH, Floats

Integers = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

KINDS: Final = ("float32", "bfloat16", "float16", "float64", "uint8")
"""Supported element types, in the order of their kinds; the last kind stands for all one-byte
types, and is supported only by `tallies`.
"""
SUMMARIZED: Final = KINDS[:-1]

_TALLIES: Final = 256
_COLUMNS: Final = slice(COLUMN["zero"], COLUMN["l2"] + 1)
"""Zero, min, max, mean, deviation_l2, abs_sum, l2; covered by a test."""


def places(buffers: Sequence[Any], kinds: Sequence[int], item_bytes: Sequence[int]) -> Integers:
    """Return the address, number of elements and kind of each buffer, int64, shape (T, 3).

    Args:
        buffers: objects that expose their memory in C order, and stay alive while the addresses are
            in use.
        kinds: position of each kind in `KINDS`, -1 if it cannot be read in this way.
        item_bytes: size of an element of each buffer, in bytes.

    Returns:
        The kind is -1 for empty buffers, and for all if the extension was not built.

    Raises:
        BufferError, ValueError: a buffer of a kind is not in C order.
    """
    places_T3 = np.full((len(buffers), 3), -1)
    if built.arrays is not None:
        kind_T = np.array(kinds, np.int64)
        taken = np.flatnonzero(kind_T >= 0).tolist()
        taken_P3 = np.empty((len(taken), 3), np.int64)
        built.arrays.locate([buffers[i] for i in taken], taken_P3)
        taken_P3[:, 1] //= np.array([item_bytes[i] for i in taken], np.int64)
        taken_P3[:, 2] = np.where(taken_P3[:, 1] > 0, kind_T[taken], -1)
        places_T3[taken] = taken_P3
    return places_T3


def norms(places_T3: Integers, region: int = 0) -> Floats:
    """Return Euclidean norms, float64, shape (T,); not finite if an element is not finite.

    Args:
        places_T3: result of `places` for arrays that are alive, without kind -1.
        region: address of `GOMP_parallel` in the runtime of a framework whose threads share the
            work, as in all functions of this module; 0: only this thread reads.
    """
    l2_T = np.empty(len(places_T3))
    built.arrays.norms(places_T3, l2_T, region)
    return l2_T


def summaries(places_T3: Integers, region: int = 0) -> tuple[Floats, Flags]:
    """Return all columns of values, float64, shape (T, F), and a mask of valid rows, shape (T,).

    Args:
        places_T3: as for `norms`.
        region: as for `norms`.

    Returns:
        Rows as described in `summary`. A row is invalid if an element is not finite, or if float32
        and float64 are not accurate enough.
    """
    rows = np.empty((len(places_T3), _COLUMNS.stop - _COLUMNS.start))
    built.arrays.summaries(places_T3, rows, region)
    return whole_rows(places_T3[:, 1], rows)


def digested_summaries(
    places_T3: Integers, seed_T: Digests, region: int = 0
) -> tuple[Floats, Flags, Digests]:
    """Return the result of `summaries` and the digest of each array, in one pass.

    Args:
        places_T3: as for `norms`.
        seed_T: uint64, shape (T,), seeds of the digests (`digest.seed_of`); overwritten.
        region: as for `norms`.
    """
    rows = np.empty((len(places_T3), _COLUMNS.stop - _COLUMNS.start))
    built.arrays.digested_summaries(places_T3, rows, seed_T, region)
    return *whole_rows(places_T3[:, 1], rows), seed_T


def digests(pieces_T3: Integers, region: int = 0) -> Digests:
    """Return the xxh3_64 of bytes, uint64, shape (T,).

    Args:
        pieces_T3: int64, C order: address, number of bytes, and seed of each piece.
        region: as for `norms`.
    """
    digest_T = np.empty(len(pieces_T3), np.uint64)
    built.arrays.digests(np.ascontiguousarray(pieces_T3), digest_T, region)
    return digest_T


def tallies(places_T3: Integers, region: int = 0) -> Integers:
    """Count the elements of each array, int64, shape (T, 256).

    Args:
        places_T3: as for `norms`, of all `KINDS`.
        region: as for `norms`.

    Returns:
        For types of one byte, the number of elements with each byte value. For other types, bins of
        powers of two as in `statistics.exponents`, negative values first, followed by the counts
        outside of the bins.
    """
    found = np.zeros((len(places_T3), _TALLIES), np.int64)
    built.arrays.tallies(places_T3, found, region)
    return found


def gather(pieces_T3: Integers, out_N: npt.NDArray[np.uint8], region: int = 0) -> None:
    """Copy data from many addresses into one memory block.

    Args:
        pieces_T3: int64, shape (T, 3): address, number of bytes, and offset in `out_N` of each
            piece.
        out_N: uint8.
        region: as for `norms`.

    Raises:
        ValueError: a piece does not fit into `out_N`.
    """
    built.arrays.gather(pieces_T3, out_N, region)


def whole_rows(count_T: npt.NDArray[Any], rows: Floats) -> tuple[Floats, Flags]:
    """Return rows of all fields, and a mask of valid rows, from the given columns."""
    rows_TF = np.full((len(rows), WIDTH), np.nan)
    rows_TF[:, _COLUMNS] = rows
    rows_TF[:, COLUMN["count"]] = count_T
    rows_TF[:, COLUMN["nan"]] = rows_TF[:, COLUMN["inf"]] = 0.0
    right_T: Flags = np.all(np.isfinite(rows), axis=1)
    return rows_TF, right_T
