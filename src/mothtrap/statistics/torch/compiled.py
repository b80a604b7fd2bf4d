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

Integers = npt.NDArray[np.int64]

_KINDS: Final = {torch.float32: 0, torch.bfloat16: 1}
_COLUMNS: Final = [
    COLUMN[name] for name in ("zero", "min", "max", "mean", "deviation_l2", "abs_sum", "l2")
]


def takes(tensor: torch.Tensor) -> bool:
    """Whether a tensor, not empty, can be read where it lies.

    Args:
        tensor: strided and contiguous, without a lazy conjugation or sign.
    """
    return (
        built.arrays is not None
        and tensor.dtype in _KINDS
        and tensor.is_cpu
        # What is sharded gives its memory back, and keeps its shape.
        and tensor.untyped_storage().nbytes() > 0
    )


def copy(tensor: torch.Tensor, out_N: npt.NDArray[np.uint8]) -> None:
    """Copy the bytes of a tensor that `in_place.lies_in_place`.

    Args:
        tensor: is read past the dispatcher, where a mode of the user's may be on.
        out_N: uint8, as many bytes.
    """
    built.arrays.copy_at(tensor.data_ptr(), tensor.nbytes, out_N)


def norms(tensors: Sequence[torch.Tensor]) -> tuple[Integers, Floats]:
    """Return the numbers of elements and Euclidean norms of tensors.

    Args:
        tensors: that it `takes`.

    Returns:
        int64 and float64, shape (T,); a norm is not finite where an element is not.
    """
    places_T3, l2_T = _places(tensors), np.empty(len(tensors))
    built.arrays.norms(places_T3, l2_T)
    return places_T3[:, 1], l2_T


def summaries(tensors: Sequence[torch.Tensor]) -> Floats:
    """Return all columns of values, float64, shape (T, F).

    Args:
        tensors: that it `takes`.

    Returns:
        Rows as described in `summary`, in which some column is not finite wherever an
        element is not, or where float32 and float64 did not do: no other is right then.
    """
    places_T3, rows = _places(tensors), np.empty((len(tensors), len(_COLUMNS)))
    built.arrays.summaries(places_T3, rows)
    rows_TF = np.full((len(tensors), WIDTH), np.nan)
    rows_TF[:, _COLUMNS] = rows
    rows_TF[:, COLUMN["count"]] = places_T3[:, 1]
    rows_TF[:, [COLUMN["nan"], COLUMN["inf"]]] = 0.0
    return rows_TF


def is_right(rows_TF: Floats) -> npt.NDArray[np.bool_]:
    """Return, shape (T,), which rows of `summaries` hold."""
    right_T: npt.NDArray[np.bool_] = np.all(np.isfinite(rows_TF[:, _COLUMNS]), axis=1)
    return right_T


def _places(tensors: Sequence[torch.Tensor]) -> Integers:
    """Address, number of elements and kind of each, shape (T, 3)."""
    return np.array([(t.data_ptr(), t.numel(), _KINDS[t.dtype]) for t in tensors], np.int64)
