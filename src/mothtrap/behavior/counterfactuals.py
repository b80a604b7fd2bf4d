"""Smallest changes of a row that change the model's answer.

Shape suffixes: R = rows, C = candidates.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from mothtrap.behavior.subject import Subject
from mothtrap.behavior.table import Column, Table

MAX_CHANGED: Final = 3
MAX_ASKED: Final = 2_000
VALUES: Final = 24
"""Values that are tried for a column; chosen by hand."""
KEPT: Final = 8
"""Number of changes that are combined with a further column; chosen by hand."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Counterfactual:
    """Change of a row that changes the model's output.

    `changes` are the new values by column; `before` and `after` are the outputs. `distance` is the
    sum of the changes, each as a share of its column's range.
    """

    changes: Mapping[str, Any]
    before: Any
    after: Any
    distance: float


def search(
    subject: Subject, row: Table, columns: Sequence[str] = (), target: Any = None
) -> Counterfactual | None:
    """Return the nearest change of at most three columns; None if no change was found.

    Only values that occur in the data are tried. For single columns, values next to the row's value
    are also tried. Columns are added one by one to the best changes so far, with at most
    `MAX_ASKED` predictions.
    """
    scores = subject.ask(row)
    goal = _Goal(subject, scores, target)
    if goal.reached(scores)[0]:
        return None
    options = list(_options(subject, row, columns))
    beams: list[dict[str, Any]] = [{}]
    asked = 0
    for _ in range(MAX_CHANGED):
        tried = [
            {**beam, name: value} for beam in beams for name, value in options if name not in beam
        ]
        if not asked:
            tried += [{name: value} for name, value in _beside(subject, row, columns)]
        tried = tried[: MAX_ASKED - asked]
        if not tried:
            return None
        asked += len(tried)
        answers = subject.ask(_changed(row, tried))
        reached = np.flatnonzero(goal.reached(answers))
        if len(reached):
            distances = {i: _distance(subject, row, tried[i]) for i in reached}
            best = min(reached, key=distances.__getitem__)
            return Counterfactual(
                changes=tried[best],
                before=goal.shown(scores[0]),
                after=goal.shown(answers[best]),
                distance=distances[best],
            )
        beams = [tried[i] for i in np.argsort(goal.missing(answers))[:KEPT]]
    return None


class _Goal:
    """Answers that count as changed: another class, or a number that is far enough away."""

    def __init__(self, subject: Subject, scores: Any, target: Any) -> None:
        self._reading, self._target = subject.reading, target
        self._start = scores[0]
        if self._reading.is_regression:
            spread = float(subject.judged.scores[:, 0].std())
            self._needed = spread if target is None else abs(float(target) - float(scores[0, 0]))
            self._sign = 0.0 if target is None else float(np.sign(float(target) - scores[0, 0]))
        elif target is not None:
            self._wanted = int(self._reading.targets([target])[0])

    def missing(self, answers: Any) -> npt.NDArray[np.float64]:
        """Return how far answers (C,) are from the goal; at 0 or less, it is reached."""
        if self._reading.is_regression:
            moved = answers[:, 0] - self._start[0]
            gained = moved * self._sign if self._sign else np.abs(moved)
            return np.asarray(self._needed - gained)
        own = int(self._start.argmax())
        others = np.delete(answers, own, axis=1).max(axis=1)
        if self._target is None:
            return np.asarray(answers[:, own] - others)
        rest = np.delete(answers, self._wanted, axis=1).max(axis=1)
        return np.asarray(rest - answers[:, self._wanted])

    def reached(self, answers: Any) -> npt.NDArray[np.bool_]:
        """Return which answers (C,) reach the goal."""
        return self.missing(answers) < (1e-12 if self._reading.is_regression else 0)

    def shown(self, answer: Any) -> Any:
        """Return an answer as a number or a label."""
        if self._reading.is_regression:
            return float(answer[0])
        return self._reading.classes[int(answer.argmax())]


def _options(subject: Subject, row: Table, columns: Sequence[str]) -> Iterator[tuple[str, Any]]:
    """Yield columns and values that occur in the data and differ from the values of the row."""
    for column in subject.table.columns:
        if columns and column.name not in columns:
            continue
        for value in _values(subject, column):
            if value != _value(row.column(column.name)):
                yield column.name, value


def _beside(subject: Subject, row: Table, columns: Sequence[str]) -> Iterator[tuple[str, float]]:
    """Yield numeric columns and values that are 1, 2, 4, ... places from the value of the row."""
    for column in subject.table.columns:
        if column.number_R is None or (columns and column.name not in columns):
            continue
        key = f"sorted values of {column.name}"
        if key not in subject.shared:
            subject.shared[key] = np.unique(column.known_R)
        known, own = subject.shared[key], _value(row.column(column.name))
        if not np.isfinite(own):
            continue
        below, above = np.searchsorted(known, own, "left"), np.searchsorted(known, own, "right")
        for step in 2 ** np.arange(int(np.log2(max(len(known) / VALUES, 1))) + 1):
            if below - step >= 0:
                yield column.name, float(known[below - step])
            if above + step <= len(known):
                yield column.name, float(known[above + step - 1])


def _values(subject: Subject, column: Column) -> Sequence[Any]:
    """Return the values that are tried for a column; they are computed once for all rows."""
    key = f"tried values of {column.name}"
    if key not in subject.shared:
        found: Sequence[Any] = ()
        if column.number_R is None:
            found = column.levels[:VALUES]
        elif len(column.known_R):
            spread = np.linspace(0, 1, VALUES)
            found = np.unique(np.quantile(column.known_R, spread, method="nearest")).tolist()
        subject.shared[key] = found
    values: Sequence[Any] = subject.shared[key]
    return values


def _value(column: Column) -> Any:
    if column.number_R is not None:
        return float(column.number_R[0])
    assert column.code_R is not None
    return column.levels[column.code_R[0]] if column.code_R[0] >= 0 else None


def _changed(row: Table, changes: Sequence[Mapping[str, Any]]) -> Table:
    """Return one row for each set of changes."""
    repeated = row.take(np.zeros(len(changes), int))
    names = {name for each in changes for name in each}
    new = {}
    for name in names:
        given = np.asarray(row.column(name).given_R)[0]
        new[name] = np.array([each.get(name, given) for each in changes], dtype=None)
    return repeated.replaced(new)


def _distance(subject: Subject, row: Table, changes: Mapping[str, Any]) -> float:
    """Return the sum over the changed columns: share of the range, or 1 for another category."""
    total = 0.0
    for name, value in changes.items():
        column = subject.table.column(name)
        if column.number_R is None:
            total += 1.0
            continue
        old, spread = _value(row.column(name)), float(np.ptp(column.known_R)) or 1.0
        total += abs(value - old) / spread if np.isfinite(old) else 1.0
    return total
