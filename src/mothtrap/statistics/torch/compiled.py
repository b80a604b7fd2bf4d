"""Plain tensors on the host, reduced by the compiled part of the package where it was built.

It reads where a tensor lies, once, single-threaded, without the calls and temporaries of
torch operations: 4 to 10 times as fast. An installation without a C compiler does not have
it, and takes the operations of torch for everything.

Shape suffixes: T = tensors, F = fields.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt
import torch

from mothtrap.statistics import built
from mothtrap.statistics.summary import COLUMN, WIDTH, Floats
from mothtrap.statistics.torch.in_place import PLAIN

Integers = npt.NDArray[np.int64]

SUMMARIZED: Final = (torch.float32, torch.bfloat16, torch.float16, torch.float64)
TALLIED: Final = (*SUMMARIZED, torch.uint8)
"""Element types, in the order of their kinds; the last one stands for all of one byte."""
_TALLIES: Final = 256
_COLUMNS: Final = slice(COLUMN["zero"], COLUMN["l2"] + 1)
"""Zero, min, max, mean, deviation_l2, abs_sum, l2: a test pins them."""


def copy(tensor: torch.Tensor, out_N: npt.NDArray[np.uint8]) -> None:
    """Copy the bytes of a tensor that `in_place.lies_in_place`.

    Args:
        tensor: is read past the dispatcher, where a mode of the user's may be on.
        out_N: uint8, as many bytes.
    """
    built.arrays.copy_at(tensor.data_ptr(), tensor.nbytes, out_N)


def gather(pieces_T3: Integers, out_N: npt.NDArray[np.uint8]) -> None:
    """Copy what lies at many places into one piece of memory.

    Args:
        pieces_T3: int64, shape (T, 3): address, bytes and place in `out_N` of each.
        out_N: uint8.

    Raises:
        ValueError: one does not fit into `out_N`.
    """
    built.arrays.gather(pieces_T3, out_N)


def places(
    tensors: Sequence[torch.Tensor], dtypes: tuple[torch.dtype, ...] = SUMMARIZED
) -> Integers:
    """Return address, number of elements and kind of each tensor, int64, shape (T, 3).

    Args:
        tensors: of any type. The kind is -1 of one that is empty or cannot be read where it
            lies, and of all where the compiled part was not built.
        dtypes: `SUMMARIZED` for norms and summaries, `TALLIED` for tallies.
    """
    places_T3 = np.full((len(tensors), 3), -1)
    if built.arrays is not None:
        built.arrays.places([*tensors], PLAIN, dtypes, torch.strided, places_T3)
    return places_T3


def norms(places_T3: Integers) -> Floats:
    """Return Euclidean norms, float64, shape (T,); not finite where an element is not.

    Args:
        places_T3: what `places` says of tensors that are alive; no kind is -1.
    """
    l2_T = np.empty(len(places_T3))
    built.arrays.norms(places_T3, l2_T)
    return l2_T


def summaries(places_T3: Integers) -> tuple[Floats, npt.NDArray[np.bool_]]:
    """Return all columns of values, float64, shape (T, F), and which rows hold, shape (T,).

    Args:
        places_T3: as for `norms`.

    Returns:
        Rows as described in `summary`. One does not hold where an element is not finite, or
        where float32 and float64 did not do.
    """
    rows = np.empty((len(places_T3), _COLUMNS.stop - _COLUMNS.start))
    built.arrays.summaries(places_T3, rows)
    rows_TF = np.full((len(places_T3), WIDTH), np.nan)
    rows_TF[:, _COLUMNS] = rows
    rows_TF[:, COLUMN["count"]] = places_T3[:, 1]
    rows_TF[:, COLUMN["nan"]] = rows_TF[:, COLUMN["inf"]] = 0.0
    right_T: npt.NDArray[np.bool_] = np.all(np.isfinite(rows), axis=1)
    return rows_TF, right_T


def tallies(places_T3: Integers) -> Integers:
    """Count the elements of each tensor, int64, shape (T, 256).

    Args:
        places_T3: what `places` says, of `TALLIED` types, of tensors that are alive; no kind
            is -1.

    Returns:
        Of types of one byte how many elements are which byte. Of the others bins of powers of
        two as `statistics.exponents` has them, negative values first, and then those in no bin.
    """
    found = np.zeros((len(places_T3), _TALLIES), np.int64)
    built.arrays.tallies(places_T3, found)
    return found
