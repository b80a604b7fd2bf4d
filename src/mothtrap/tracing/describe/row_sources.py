"""The variable of the script that holds all rows from which batches are drawn."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from types import BuiltinFunctionType, FrameType, FunctionType, MethodType, ModuleType
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from mothtrap.tracing.jobs.identity import OwnRef
from mothtrap.tracing.source import frames
from mothtrap.tracing.source.frame_variables import variables

Array = npt.NDArray[Any]
View = Callable[[Any], Array | None]
"""Returns the elements of a tensor or array, without a copy; None for anything else."""

MAX_FRAMES, MAX_KEPT = 8, 64
"""Maximum number of frames, and of arrays that are compared."""
MAX_DEPTH, MAX_PARTS, MAX_VALUES = 3, 64, 4096
"""Maximum depth of a variable's parts, their number in one object, and the number of all values.
Chosen by hand: 2 ms."""
PROBES: Final = 8
"""Rows of an array that must stay as they are, and columns in which rows are compared first."""
MAX_COUNTED, MAX_COLUMNS = 1 << 16, 256
"""Maximum number of rows and columns of an array whose distinct rows are counted."""


_WITHOUT_DATA = (type, ModuleType, FunctionType, BuiltinFunctionType, MethodType)


@dataclass(frozen=True, slots=True)
class RowSource:
    """A variable that contains the rows of a batch, and the number of its distinct rows."""

    name: str
    rows: int


@dataclass(frozen=True, slots=True)
class _Kept:
    name: str
    value: OwnRef[Any]
    probe: bytes


class RowSources:
    """Arrays of a script that exist while batches are drawn, and do not change.

    Args:
        view: returns the elements of a tensor of the framework, or of an array.
    """

    def __init__(self, view: View) -> None:
        self._view = view
        self._kept: list[_Kept] = []

    def remember(self, rows: int, elements: int) -> None:
        """Remember the arrays in the variables of the running script.

        Args:
            rows: minimum number of rows of an array.
            elements: number of elements of a row.
        """
        for name, value in named_values(frames.user_frame()):
            array = self._view(value)
            if array is None or array.ndim < 2 or len(array) < rows:
                continue
            if array.size != len(array) * elements or len(self._kept) >= MAX_KEPT:
                continue
            try:
                reference = OwnRef(value)
            except TypeError:
                continue
            self._kept.append(_Kept(name, reference, _probe(array)))

    def find(self, rows_RF: Array) -> RowSource | None:
        """Return the smallest remembered array that contains all of some rows.

        Args:
            rows_RF: some rows of a batch, flattened, in the order of its columns.
        """
        found: list[RowSource] = []
        for kept in self._kept:
            value = kept.value()
            array = self._view(value) if value is not None else None
            if array is None or _probe(array) != kept.probe:
                continue
            flat_RF = array.reshape(len(array), -1)
            if all(_contains(flat_RF, row_F) for row_F in rows_RF):
                found.append(RowSource(kept.name, _distinct(flat_RF)))
        return min(found, key=lambda one: (one.rows, len(one.name)), default=None)


def named_values(frame: FrameType | None) -> Iterator[tuple[str, Any]]:
    """Yield the variables of the user's running functions, and the parts of these variables.

    Args:
        frame: the innermost frame.
    """
    return islice(_values(frame), MAX_VALUES)


def _values(frame: FrameType | None) -> Iterator[tuple[str, Any]]:
    seen = 0
    while frame is not None and seen < MAX_FRAMES:
        if frames.is_users(frame):
            seen += 1
            for name, value in variables(frame) or ():
                if not name.startswith("__"):
                    yield from _parts(name, value, MAX_DEPTH)
        frame = frame.f_back


def _parts(name: str, value: Any, depth: int) -> Iterator[tuple[str, Any]]:
    """Yield a value, the values in it if it is a container, and its attributes."""
    yield name, value
    held: Iterable[tuple[str, Any]] = ()
    if depth and type(value) is dict:
        held = ((f"{name}[{key!r}]", part) for key, part in value.items() if type(key) is str)
    elif depth and type(value) in (list, tuple):
        held = ((f"{name}[{place}]", part) for place, part in enumerate(value[:MAX_PARTS]))
    elif depth and not isinstance(value, _WITHOUT_DATA):
        own = getattr(value, "__dict__", None)
        held = own.items() if type(own) is dict else ()
        # an attribute that is not public only stores the attributes that are
        held = ((name if key[:1] == "_" else f"{name}.{key}", part) for key, part in held)
    for label, part in islice(held, MAX_PARTS):
        yield from _parts(label, part, depth - 1)


def _probe(array: Array) -> bytes:
    """Return evenly spread rows."""
    places = np.linspace(0, len(array) - 1, PROBES).astype(int)
    return np.ascontiguousarray(array[places]).tobytes()


def _contains(flat_RF: Array, row_F: Array) -> bool:
    columns = np.linspace(0, len(row_F) - 1, min(PROBES, len(row_F))).astype(int)
    some_RC = flat_RF[:, columns].astype(row_F.dtype, copy=False)
    places = np.flatnonzero((some_RC == row_F[columns]).all(axis=1))
    return any(np.array_equal(flat_RF[p].astype(row_F.dtype), row_F) for p in places[:PROBES])


def _distinct(flat_RF: Array) -> int:
    """Return the number of distinct rows, estimated for a large array."""
    rows, columns = flat_RF.shape
    # evenly spread, because the end of a buffer may not be filled yet
    some_RF = flat_RF[:: max(1, -(-rows // MAX_COUNTED)), :: max(1, columns // MAX_COLUMNS)]
    few = np.ascontiguousarray(some_RF)
    different = len(np.unique(few.view(f"V{few.dtype.itemsize * few.shape[1]}")))
    return int(different * rows / len(few))
