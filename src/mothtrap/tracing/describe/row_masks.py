"""Variables of a script that select the training rows and the evaluation rows of one data set."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from types import FrameType
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from mothtrap.tracing.source.held_arrays import Read, arrays_in_reach

HELD_OUT: Final = ("val", "test", "eval", "dev", "hold")
TRAINED: Final = "train"
"""Parts of the names of variables that select rows."""


@dataclass(frozen=True, slots=True)
class RowMask:
    """A variable that selects rows: a boolean mask, or different indices."""

    name: str
    rows: frozenset[int]


def held_out_rows(frame: FrameType | None, rows: int, view: Read) -> list[RowMask]:
    """Return the variables that select evaluation rows.

    They count only if another variable selects training rows, and has no row in common with them.

    Args:
        frame: the innermost frame.
        rows: number of rows of the data.
        view: returns the elements of a tensor of the framework, or of an array.
    """
    named = [(name.rpartition(".")[2].lower(), mask) for name, mask in _masks(frame, rows, view)]
    trained = [mask for name, mask in named if TRAINED in name]
    return [
        mask
        for name, mask in named
        if TRAINED not in name
        and any(part in name for part in HELD_OUT)
        and any(not (mask.rows & other.rows) for other in trained)
    ]


def _masks(frame: FrameType | None, rows: int, view: Read) -> Iterator[tuple[str, RowMask]]:
    for name, value in arrays_in_reach(frame):
        array = view(value)
        found = _selected(array, rows) if array is not None and array.ndim == 1 else None
        if found is not None and 0 < len(found) < rows:
            yield name, RowMask(name, frozenset(found.tolist()))


def _selected(array: npt.NDArray[Any], rows: int) -> npt.NDArray[Any] | None:
    """Return the indices that a mask or a list of indices selects; None for other arrays."""
    if array.dtype.kind == "b":
        return np.flatnonzero(array) if len(array) == rows else None
    if array.dtype.kind not in "iu" or not 0 < len(array) < rows:
        return None
    distinct = np.unique(array)
    within = len(distinct) == len(array) and distinct[0] >= 0 and distinct[-1] < rows
    return distinct if within else None
