"""First moment, and first column in it, at which two tables of two runs differ.

Shape suffixes: K = moments that both runs have, T = columns of a table.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec
import numpy as np

from mothtrap.core.window import Bools, Floats, Ints
from mothtrap.reader.compare.comparable import MICRO_BATCHES, Phase, Table

BY_DIGEST = ("digests", "sums of bits", "sums of digests")
"""Methods whose values are digests."""
NEARLY = 2e-5
"""Relative tolerance of statistics: twice the error of a statistic, which may be computed in
several ways, depending on the time budget.
"""
ALLOWED = 4.0
"""Multiple of the rounding difference in a perturbed run up to which numbers count as equal. Chosen
by hand: parts of a batch are rounded more often than a whole batch.
"""
FIRST_MOMENTS = 8
"""Number of first moments over which their difference is measured, because the difference at a
single moment may be small by chance. Chosen by hand.
"""
NAMED = 8
"""Maximum number of further columns whose names are reported."""


class FirstDivergence(msgspec.Struct, frozen=True, kw_only=True):
    """The first difference between two runs.

    `phase` is the part of the step, `what` a tensor, scalar or generator, and `also` lists the
    other values of the same kind that differ at that moment (`count` of `of`). `first` and `second`
    are the values in words, and `method` describes the comparison. `relative` is the difference of
    the numbers relative to the larger number. `apart` is the largest difference of any value
    relative to the largest value of its kind, because a gradient that is 0 except for rounding can
    differ by 100 %. `missing`: only one of the runs has it. `micro_batch` counts from 0. `since`:
    the latest earlier step at which the same kind of value was compared, if there are steps in
    between: the runs diverged at one of them, or at `step`.
    """

    step: int
    phase: str
    what: str
    first: str
    second: str
    method: str
    also: tuple[str, ...] = ()
    count: int = 1
    of: int = 1
    relative: float | None = None
    apart: float | None = None
    missing: bool = False
    micro_batch: int = 0
    since: int | None = None
    worker: int | None = None
    location: str | None = None


@dataclass(frozen=True, slots=True)
class Tolerance:
    """Tolerance for the equality of two numbers; both 0: exact equality."""

    rtol: float = 0.0
    atol: float = 0.0

    @property
    def exact(self) -> bool:
        """Return whether numbers must be equal."""
        return not (self.rtol or self.atol)

    def differs(self, first: Floats, second: Floats) -> Bools:
        """Return a mask of differing values; NaN equals NaN."""
        with np.errstate(invalid="ignore", over="ignore"):
            size = np.maximum(np.abs(first), np.abs(second))
            near = np.abs(first - second) <= self.atol + self.rtol * size
            near &= np.isfinite(size)
        same: Bools = (first == second) | (np.isnan(first) & np.isnan(second))
        return ~(same | near) if not self.exact else ~same


@dataclass(frozen=True, slots=True, eq=False)
class Pair:
    """Values of one type from two runs, at the moments and in the columns to compare.

    `perturbed` contains the values of a run that differs from the first run only by rounding.
    """

    first: Table
    second: Table
    tolerance: Tolerance
    worker: int | None
    perturbed: Table | None = None


Order = tuple[int, int, int, int, int]
"""Position in the order of execution."""


def first_of(pair: Pair) -> tuple[Order, FirstDivergence] | None:
    """Return the first divergence of a pair, and its position in the order of execution."""
    joined = _join(pair)
    differs_KT = _differs(pair, joined) | joined.gone_KT
    rows = np.flatnonzero(differs_KT.any(axis=1))
    if not len(rows):
        return None
    row = int(rows[0])
    columns = np.flatnonzero(differs_KT[row]).tolist()
    step, place = divmod(int(joined.key_K[row]), MICRO_BATCHES)
    phase = pair.first.phase
    rough = pair.first.method not in BY_DIGEST
    order = (step, -1 if phase is Phase.STATE else place, int(phase), int(rough), columns[0])
    return order, _divergence(pair, joined, row, columns)


def _differs(pair: Pair, joined: _Joined) -> Bools:
    """Return where values differ by more than the tolerance, which is measured if possible.

    A moment that the perturbed run lacks has the tolerance of the moments before it.
    """
    differs_KT = pair.tolerance.differs(joined.first_KT, joined.second_KT)
    if pair.perturbed is None or pair.first.method in BY_DIGEST:
        return differs_KT
    third_KT, known_KT = _spread(pair.perturbed, joined.key_K, joined.names)
    finite_KT = np.isfinite(joined.first_KT)
    known_KT &= np.isfinite(third_KT) & finite_KT
    measured_KT = known_KT.any(axis=0) & finite_KT
    if not measured_KT.any():
        return differs_KT
    with np.errstate(invalid="ignore"):
        size_KT = np.maximum(np.abs(joined.first_KT), np.abs(joined.second_KT))
        allowed_KT = _allowed(joined.first_KT, third_KT, known_KT) + NEARLY * size_KT
        beyond_KT = np.abs(joined.second_KT - joined.first_KT) > allowed_KT
    return np.where(measured_KT, beyond_KT, differs_KT)


def _allowed(first_KT: Floats, third_KT: Floats, known_KT: Bools) -> Floats:
    """Return how much values may differ: `ALLOWED` times the effect of rounding on them.

    A value may change little by chance, so the median over the columns is the lower limit of the
    relative change, and the first moments share their largest change.
    """
    apart_KT = np.where(known_KT, np.abs(third_KT - first_KT), 0.0)
    size_KT = np.where(np.isfinite(first_KT), np.abs(first_KT), 0.0)
    relative_KT = np.divide(apart_KT, size_KT, out=np.zeros_like(apart_KT), where=size_KT > 0)
    relative_KT = np.maximum.accumulate(relative_KT)
    early_T = relative_KT[:FIRST_MOMENTS][-1]
    relative_KT = np.maximum(relative_KT, early_T)
    usual_K = np.median(relative_KT, axis=1)
    allowed: Floats = ALLOWED * np.maximum(relative_KT, usual_K[:, None]) * size_KT
    return allowed


@dataclass(frozen=True, slots=True, eq=False)
class _Joined:
    """Values of two runs, aligned; `gone_KT`: only one has it; `known_KT`: both have it."""

    key_K: Ints
    names: tuple[str, ...]
    first_KT: Floats
    second_KT: Floats
    gone_KT: Bools
    known_KT: Bools


def _join(pair: Pair) -> _Joined:
    first, second = pair.first, pair.second
    complete = first.complete and second.complete
    if complete:
        steps = np.intersect1d(first.key_K // MICRO_BATCHES, second.key_K // MICRO_BATCHES)
        every_K = np.union1d(first.key_K, second.key_K)
        key_K = every_K[np.isin(every_K // MICRO_BATCHES, steps)]
        names = [*first.names, *(name for name in second.names if name not in first.names)]
    else:
        key_K = np.intersect1d(first.key_K, second.key_K)
        names = [name for name in first.names if name in second.names]
    first_KT, is_first_KT = _spread(first, key_K, names)
    second_KT, is_second_KT = _spread(second, key_K, names)
    absent_KT = ~(is_first_KT & is_second_KT)
    gone_KT = is_first_KT != is_second_KT if complete else np.zeros_like(absent_KT)
    absent_KT &= ~gone_KT
    first_KT[absent_KT] = second_KT[absent_KT] = 0.0
    return _Joined(key_K, tuple(names), first_KT, second_KT, gone_KT, is_first_KT & is_second_KT)


def _spread(table: Table, key_K: Ints, names: Sequence[str]) -> tuple[Floats, Bools]:
    value_KT = np.full((len(key_K), len(names)), np.nan)
    present_KT = np.zeros(value_KT.shape, np.bool_)
    _, to_K, from_K = np.intersect1d(key_K, table.key_K, return_indices=True)
    own = {name: column for column, name in enumerate(table.names)}
    to = np.array([column for column, name in enumerate(names) if name in own], np.intp)
    taken = np.array([own[names[column]] for column in to.tolist()], np.intp)
    value_KT[np.ix_(to_K, to)] = table.value_KT[np.ix_(from_K, taken)]
    present_KT[np.ix_(to_K, to)] = table.present_KT[np.ix_(from_K, taken)]
    return value_KT, present_KT


def _divergence(pair: Pair, joined: _Joined, row: int, columns: Sequence[int]) -> FirstDivergence:
    column = columns[0]
    step, place = divmod(int(joined.key_K[row]), MICRO_BATCHES)
    name, table = joined.names[column], pair.first
    first, second = float(joined.first_KT[row, column]), float(joined.second_KT[row, column])
    is_digest = table.method in BY_DIGEST
    earlier = np.flatnonzero(joined.known_KT[:row, column])
    before = int(joined.key_K[earlier[-1]]) // MICRO_BATCHES if len(earlier) else step - 1
    known = table.names.index(name) if name in table.names and table.location_T else None
    return FirstDivergence(
        step=step,
        phase=table.phase.words,
        what=name,
        first=_value(first, is_digest),
        second=_value(second, is_digest),
        method=table.method,
        also=tuple(joined.names[c] for c in columns[1 : NAMED + 1]),
        count=len(columns),
        of=len(joined.names),
        relative=None if is_digest else _relative(first, second),
        apart=None if is_digest else _apart(joined.first_KT[row], joined.second_KT[row], columns),
        missing=bool(joined.gone_KT[row, column]),
        micro_batch=place if place < MICRO_BATCHES - 1 else 0,
        since=before if before < step - 1 else None,
        worker=pair.worker,
        location=table.location_T[known] if known is not None else None,
    )


def _value(value: float, is_digest: bool) -> str:
    if np.isnan(value) and is_digest:
        return "nothing"
    return f"{int(value):014x}" if is_digest else repr(value)


def _apart(first_T: Floats, second_T: Floats, columns: Sequence[int]) -> float | None:
    largest = float(np.nanmax(np.maximum(np.abs(first_T), np.abs(second_T))))
    with np.errstate(invalid="ignore"):
        most = float(np.max(np.abs(first_T[columns] - second_T[columns])))
    return most / largest if np.isfinite(largest) and np.isfinite(most) and largest else None


def _relative(first: float, second: float) -> float | None:
    if not (np.isfinite(first) and np.isfinite(second)):
        return None
    size = max(abs(first), abs(second))
    return abs(first - second) / size if size else 0.0
