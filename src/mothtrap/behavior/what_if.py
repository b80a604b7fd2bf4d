"""Outputs of a model for one row whose values are changed."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from mothtrap.behavior.subject import Subject
from mothtrap.behavior.table import Table
from mothtrap.core.errors import ConfigError, UnknownNameError, nearest

PERCENTS: Final = (-50, -20, -10, 10, 20, 50)
_RELATIVE: Final = re.compile(r"\s*([+-]\d+(?:\.\d+)?)\s*%\s*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """Model output for a row before and after a change.

    `changes` are the new values by column. `before` and `after` are the predicted number, or the
    probability of each class by label.
    """

    changes: Mapping[str, Any]
    before: float | Mapping[str, float]
    after: float | Mapping[str, float]


def answer(subject: Subject, row: Table, changes: Mapping[str, Any]) -> Answer:
    """Return the output for a row before and after changes; see `ProbeReport.what_if`."""
    new = {name: changed(row, name, change) for name, change in changes.items()}
    before, after = subject.ask(row), subject.ask(row.replaced(new))
    return Answer(changes=new, before=_shown(subject, before), after=_shown(subject, after))


def table(subject: Subject, row: Table, columns: Sequence[str]) -> list[Answer]:
    """Return the outputs for each numeric column changed by each of `PERCENTS`."""
    names = columns or [c.name for c in row.columns if c.is_number]
    return [answer(subject, row, {name: f"{p:+d}%"}) for name in names for p in PERCENTS]


def changed(row: Table, name: str, change: Any) -> Any:
    """Return the new value of a column: the given value, or the old value changed by a percentage.

    Raises:
        UnknownNameError: there is no such column.
        ConfigError: a percentage was given for a value that is not a number.
    """
    if name not in row.names:
        raise UnknownNameError(f"no column {name!r}{nearest(name, row.names)}")
    relative = _RELATIVE.fullmatch(change) if isinstance(change, str) else None
    if relative is None:
        return change
    column = row.column(name)
    if column.number_R is None:
        raise ConfigError(f"{name} is not a number, so {change!r} cannot be applied; pass a value")
    new = float(column.number_R[0]) * (1 + float(relative[1]) / 100)
    given = np.asarray(column.given_R)
    return round(new) if given.dtype.kind in "iu" else new


def _shown(subject: Subject, scores: Any) -> float | dict[str, float]:
    if subject.reading.is_regression:
        return float(scores[0, 0])
    classes = map(str, subject.reading.classes)
    return {label: float(p) for label, p in zip(classes, scores[0], strict=True)}
