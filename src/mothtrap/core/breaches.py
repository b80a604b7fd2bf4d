"""Evaluate invariants: find the first step at which each is violated. Pure.

Shape suffixes: S = captured steps, T = tensors; a scalar is one tensor.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from mothtrap.core.errors import NotEnoughData
from mothtrap.core.invariants import (
    Changes,
    Constant,
    Direction,
    Dtype,
    Invariant,
    Present,
    Range,
)
from mothtrap.core.steps import Mode
from mothtrap.core.window import Bools, Floats, Ints, Series, Window

SAME = 1e-6
"""Relative difference below which two values count as equal; the rounding error of float32."""

MAY_BE_UNDEFINED = frozenset({"update_ratio"})
"""Statistics that may have no value in a sound run: the weight was 0 before its first change."""


@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """Values of tensors, or of one scalar, at the applied steps.

    `values_ST` is valid only where `present_ST` is True. `names` is empty for a scalar.
    """

    steps_S: Ints
    values_ST: Floats
    present_ST: Bools
    names: tuple[str, ...] = ()
    locations: tuple[str | None, ...] = ()
    dtypes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Breach:
    """Violation of an invariant: its first step, the tensors or scalars, and the observed value.

    `value` is the first wrong value, or the wrong type; None without a value.
    """

    invariant: Invariant
    step: int
    last_step: int
    count: int
    names: tuple[str, ...]
    value: float | str | None
    location: str | None


def judge(invariant: Invariant, window: Window) -> Breach | None:
    """Return the first breach of an invariant in a window, or None.

    Raises:
        NotEnoughData: the window has no data for the invariant.
    """
    found = (
        _absences(invariant, window)
        if isinstance(invariant, Present)
        else [(t, _broken(invariant, t), t.present_ST) for t in tables(invariant, window)]
    )
    if not found:
        raise NotEnoughData(f"{invariant.subject} was not captured")
    lasting = [
        (table, _lasting(mask_ST, judged_ST, table.steps_S, invariant.patience))
        for table, mask_ST, judged_ST in found
    ]
    breaches = [_breach(invariant, table, mask_ST) for table, mask_ST in lasting if mask_ST.any()]
    return min(breaches, key=lambda breach: breach.step, default=None)


def tables(invariant: Invariant, window: Window) -> list[Table]:
    """Return the data that an invariant refers to, without empty tables."""
    found = (
        _of_tensors(invariant, window) if invariant.statistic else _of_scalars(invariant.of, window)
    )
    return [table for table in found if table.present_ST.any()]


def _of_scalars(of: str, window: Window) -> Iterator[Table]:
    for series in _series(of, window):
        applied_S = ~np.isin(series.steps_S, window.steps_S[window.skipped_S])
        values_ST = series.values_S[applied_S][:, None]
        yield Table(
            series.steps_S[applied_S],
            values_ST,
            np.ones(values_ST.shape, np.bool_),
            locations=(series.location,),
        )


def _series(of: str, window: Window) -> list[Series]:
    name, _, owner = of.partition(":")
    return [s for s in window.scalars(name, Mode.TRAIN) if not owner or s.of == owner]


def _of_tensors(invariant: Invariant, window: Window) -> Iterator[Table]:
    kind, statistic = invariant.statistic or ("", "")
    matrix = window.matrix(kind, statistic)
    if matrix is None:
        return
    chosen = invariant.taken([tensor.name for tensor in matrix.tensors])
    rows_columns = np.ix_(np.flatnonzero(~matrix.skipped_S), np.array(chosen, np.int64))
    values_ST = matrix.values_ST[rows_columns]
    present_ST = matrix.present_ST[rows_columns]
    if statistic in MAY_BE_UNDEFINED:
        present_ST = present_ST & np.isfinite(values_ST)
    yield Table(
        matrix.steps_S[~matrix.skipped_S],
        values_ST,
        present_ST,
        names=tuple(matrix.tensors[i].name for i in chosen),
        locations=tuple(matrix.tensors[i].location for i in chosen),
        dtypes=tuple(matrix.tensors[i].dtype for i in chosen),
    )


def _broken(invariant: Invariant, table: Table) -> Bools:
    """Return a mask of the values that violate an invariant; shape (S, T)."""
    match invariant:
        case Range():
            wrong_ST = _outside(invariant, table.values_ST)
        case Constant():
            wrong_ST = _moved(table)
        case Changes():
            wrong_ST = _unchanged_mask(table, invariant.within)
        case Direction():
            wrong_ST = _wrong_direction(table, 1.0 if invariant.never == "rises" else -1.0)
        case Dtype():
            wrong_T = np.array([dtype not in invariant.dtypes for dtype in table.dtypes], np.bool_)
            wrong_ST = np.broadcast_to(wrong_T, table.present_ST.shape)
        case _:
            raise TypeError(f"{type(invariant).__name__} is not checked against values")
    return wrong_ST & table.present_ST


def _outside(bounds: Range, values_ST: Floats) -> Bools:
    inside_ST = np.isfinite(values_ST)
    if bounds.above is not None:
        inside_ST &= values_ST > bounds.above
    if bounds.at_least is not None:
        inside_ST &= values_ST >= bounds.at_least - SAME * abs(bounds.at_least)
    if bounds.at_most is not None:
        inside_ST &= values_ST <= bounds.at_most + SAME * abs(bounds.at_most)
    return ~inside_ST


def _moved(table: Table) -> Bools:
    first_T = table.values_ST[np.argmax(table.present_ST, axis=0), np.arange(_width(table))]
    moved_ST: Bools = ~(np.abs(table.values_ST - first_T) <= SAME * np.abs(first_T))
    return moved_ST


def _unchanged_mask(table: Table, within: int) -> Bools:
    """Return a mask of the values at which a tensor begins to stay the same for `within` steps."""
    wrong_ST = np.zeros(table.present_ST.shape, np.bool_)
    for t in range(_width(table)):
        rows = np.flatnonzero(table.present_ST[:, t])
        values_S, steps_S = table.values_ST[rows, t], table.steps_S[rows]
        starts = np.flatnonzero(np.r_[True, values_S[1:] != values_S[:-1]])
        ends = np.r_[starts[1:], len(rows)] - 1
        still = steps_S[ends] - steps_S[starts] >= within
        wrong_ST[rows[starts[still]], t] = True
    return wrong_ST


def _wrong_direction(table: Table, sign: float) -> Bools:
    """Return a mask of values above (`sign` 1) or below (-1) the previous value, or not finite."""
    wrong_ST = ~np.isfinite(table.values_ST)
    for t in range(_width(table)):
        rows = np.flatnonzero(table.present_ST[:, t])
        values_S = table.values_ST[rows, t]
        wrong_ST[rows[1:], t] |= sign * np.diff(values_S) > SAME * np.abs(values_S[:-1])
    return wrong_ST


def _lasting(mask_ST: Bools, judged_ST: Bools, steps_S: Ints, patience: int) -> Bools:
    """Return a mask of the violations that last at least `patience` of the evaluated steps."""
    if patience <= 1 or not mask_ST.any():
        return mask_ST
    lasting_ST = np.zeros(mask_ST.shape, np.bool_)
    for t in np.flatnonzero(mask_ST.any(axis=0)):
        rows = np.flatnonzero(judged_ST[:, t])
        for start, stop in _stretches(mask_ST[rows, t]):
            if steps_S[rows[stop - 1]] - steps_S[rows[start]] + 1 >= patience:
                lasting_ST[rows[start:stop], t] = True
    return lasting_ST


def _stretches(wrong_S: Bools) -> list[tuple[int, int]]:
    """Return the runs of consecutive True values: index of the first, and index after the last."""
    edges = np.flatnonzero(np.diff(np.r_[False, wrong_S, False].astype(np.int8)))
    return [(int(start), int(stop)) for start, stop in edges.reshape(-1, 2)]


def _absences(invariant: Present, window: Window) -> list[tuple[Table, Bools, Bools]]:
    """Return the data of a presence invariant, with masks of missing and of required values."""
    if invariant.statistic is None:
        found = _absent_scalar(invariant, window)
    else:
        found = [_with_missing(invariant, table) for table in tables(invariant, window)]
    judged = []
    for table in found:
        due_S = _due(invariant, window, table.steps_S)
        due_ST = np.broadcast_to(due_S[:, None], table.present_ST.shape)
        judged.append((table, ~table.present_ST & due_ST, due_ST))
    return judged


def _absent_scalar(invariant: Present, window: Window) -> list[Table]:
    every = _series(invariant.of, window)
    steps_S = window.steps_S[~window.skipped_S]
    if not every or not len(steps_S):
        return []
    here_S = np.isin(steps_S, np.concatenate([series.steps_S for series in every]))
    return [Table(steps_S, np.full((len(steps_S), 1), np.nan), here_S[:, None])]


def _with_missing(invariant: Present, table: Table) -> Table:
    """Return a table with an additional column for each named tensor that never appeared."""
    missing = tuple(name for name in invariant.named if name not in table.names)
    shape = len(table.steps_S), len(missing)
    return Table(
        table.steps_S,
        np.hstack([table.values_ST, np.full(shape, np.nan)]),
        np.hstack([table.present_ST, np.zeros(shape, np.bool_)]),
        names=(*table.names, *missing),
        locations=(*table.locations, *[None] * len(missing)),
    )


def _due(invariant: Present, window: Window, steps_S: Ints) -> Bools:
    if not invariant.at:
        return np.ones(len(steps_S), np.bool_)
    marks = [series.steps_S for series in _series(invariant.at, window)]
    return np.isin(steps_S, np.concatenate(marks)) if marks else np.zeros(len(steps_S), np.bool_)


def _breach(invariant: Invariant, table: Table, mask_ST: Bools) -> Breach:
    rows = np.flatnonzero(mask_ST.any(axis=1))
    columns = np.flatnonzero(mask_ST.any(axis=0))
    columns = columns[np.argsort(np.argmax(mask_ST[:, columns], axis=0), kind="stable")]
    row, column = int(rows[0]), int(columns[0])
    value: float | str | None = None
    if table.present_ST[row, column]:
        of_type = isinstance(invariant, Dtype)
        value = table.dtypes[column] if of_type else float(table.values_ST[row, column])
    return Breach(
        invariant=invariant,
        step=int(table.steps_S[row]),
        last_step=int(table.steps_S[rows[-1]]),
        count=len(rows),
        names=tuple(table.names[i] for i in columns) if table.names else (),
        value=value,
        location=table.locations[column] if table.locations else None,
    )


def _width(table: Table) -> int:
    return int(table.present_ST.shape[1])
