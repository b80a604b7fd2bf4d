"""Find the first operation of an eager step with a non-finite result."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from mothtrap.adapters.tensorflow import internals

MAX_ROWS: Final = 64
MOVES: Final = frozenset(
    {
        *("Identity", "Reshape", "Cast", "Select", "SelectV2", "ReadVariableOp", "Transpose"),
        *("Squeeze", "ExpandDims", "StridedSlice", "GatherV2", "Tile", "BroadcastTo", "ConcatV2"),
        *("Fill", "Pack", "Unpack", "StopGradient", "Const"),
    }
)
"""Operations that move values without changing them."""


@dataclass(frozen=True, slots=True, eq=False)
class Place:
    """Location of an operation: the user's line, and the layer's path."""

    location: str | None
    module: str


@dataclass(frozen=True, slots=True, eq=False)
class Bad:
    """An operation whose result is not finite.

    Attributes:
        backward: operation to whose gradient it belongs; '' in the forward pass.
        nan: whether its result contains NaN, not only infinities.
        causes: operations that produced the non-finite arguments.
        given: whether an argument is not finite, and no operation of the step produced it. tensors,
            attrs: arguments of its call, if all of them are finite.
    """

    operation: str
    backward: str
    place: Place
    inputs: tuple[str, ...]
    rows: tuple[int, ...]
    count: int
    nan: bool
    causes: tuple[Bad, ...]
    given: bool
    tensors: tuple[Any, ...] = ()
    attrs: tuple[Any, ...] = ()

    @property
    def told(self) -> str:
        """Operation as text."""
        return f"gradient of {self.backward}" if self.backward else self.operation


class Search:
    """Receives the operations of an eager step.

    Args:
        where: returns the location of the current operation.
    """

    def __init__(self, where: Callable[[], Place]) -> None:
        self._where = where
        self._bad: dict[int, Bad] = {}
        self._places: dict[int, Place] = {}
        self._kept: list[Any] = []

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Observe every operation of the block."""
        with internals.each_operation(self._operation):
            yield

    def of(self, value: Any) -> Bad | None:
        """Return the operation that produced a value, if the value is not finite."""
        return self._bad.get(id(value))

    def _operation(
        self,
        kind: str,
        inputs: Sequence[Any],
        outputs: Sequence[Any],
        attrs: Sequence[Any] = (),
    ) -> None:
        place, backward = self._here()
        self._kept += outputs  # kept alive, so that their ids are not reused
        for output in outputs:
            self._places[id(output)] = place
            if not _is_float(output) or is_finite(output):
                continue
            bad = [one for one in inputs if _is_float(one) and not is_finite(one)]
            causes = tuple(self._bad[id(one)] for one in bad if id(one) in self._bad)
            value = _array(output)
            self._bad[id(output)] = Bad(
                operation=kind,
                backward=backward,
                place=place,
                inputs=tuple(_range(one) for one in inputs if _is_float(one))[:4],
                rows=_rows(value),
                count=len(value) if value.ndim else 0,
                nan=bool(np.isnan(value).any()),
                causes=causes,
                given=len(causes) < len(bad),
                tensors=() if bad else tuple(inputs),
                attrs=tuple(attrs or ()),
            )

    def _here(self) -> tuple[Place, str]:
        found = internals.differentiated(sys._getframe(1))
        if found is not None:
            operation, outputs = found
            known = (self._places.get(id(one)) for one in outputs)
            place = next((one for one in known if one is not None), None)
            return place or Place(None, ""), operation
        return self._where(), ""


def origin_of(bad: Bad) -> Bad:
    """Return the operation that first produced the non-finite value of a bad operation.

    NaN has priority over infinities; an infinity that a program contains as a constant (a mask) has
    no origin.
    """
    seen: set[int] = set()
    while id(bad) not in seen:
        seen.add(id(bad))
        causes = [one for one in bad.causes if one.nan]
        causes += [one for one in bad.causes if not one.nan and not _is_constant(one)]
        if not causes:
            break
        bad = causes[0]
    return bad


def _is_constant(bad: Bad) -> bool:
    """Return whether an infinity is a constant of the program that was only passed on."""
    if bad.nan or bad.operation not in MOVES:
        return False
    return not bad.causes or all(map(_is_constant, bad.causes))


def _is_float(value: Any) -> bool:
    dtype = getattr(value, "dtype", None)
    return bool(getattr(dtype, "is_floating", False)) and hasattr(value, "numpy")


def is_finite(tensor: Any) -> bool:
    """Return whether all values of an eager tensor are finite."""
    return bool(np.isfinite(_array(tensor)).all())


def _array(tensor: Any) -> Any:
    array = np.asarray(tensor.numpy())
    return array.astype(np.float32) if array.itemsize < 4 else array


def _range(tensor: Any) -> str:
    values = _array(tensor).astype(np.float64)
    finite = values[np.isfinite(values)]
    bad = values.size - finite.size
    words = f"from {finite.min():.4g} to {finite.max():.4g}" if finite.size else "none finite"
    return f"{words}, {bad} not finite" if bad else words


def _rows(value: Any) -> tuple[int, ...]:
    """Return the rows with non-finite values; empty if all rows have some."""
    if value.ndim < 1 or len(value) < 2:
        return ()
    bad_N = ~np.isfinite(value.reshape(len(value), -1)).all(axis=1)
    return () if bad_N.all() else tuple(np.flatnonzero(bad_N)[:MAX_ROWS].tolist())
