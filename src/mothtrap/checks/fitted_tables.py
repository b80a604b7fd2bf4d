"""Tables passed to `fit` of scikit-learn, XGBoost, or LightGBM, as subjects of checks."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from mothtrap.checks.arrays import ArraySet
from mothtrap.checks.check import Check, result_of
from mothtrap.checks.subject import Array, Subject
from mothtrap.core.facts.checks import CheckResult

NO_STEP = "the script fits a model in one call, so there is no training step to repeat"
CHECK_SHARE = 0.5
"""Share of the remaining time that a check gets if others follow; chosen by hand."""
MAX_VALUES = 50_000_000
"""Most values of a table that is kept (400 MB); chosen by hand."""


@dataclass(frozen=True, kw_only=True)
class FittedTable:
    """A table that a model was fitted to or evaluated on.

    Attributes:
        x: Rows as the script passed them: an array, a data frame, or a sparse matrix.
        y: Targets; None for none.
        role: Purpose of the rows.
        task: Task of the model; empty if unknown.
        model: Class of the model.
        location: `file:line` of the call.
        direct: True if the script itself made the call, not another estimator such as a search.
    """

    x: Any
    y: Any
    role: Literal["train", "evaluation"]
    task: Literal["classes", "numbers", ""] = ""
    model: str = ""
    location: str | None = None
    direct: bool = True


class TablesSeen:
    """Tables of a script, stored until the checks run."""

    def __init__(self) -> None:
        self._tables: list[FittedTable] = []

    @property
    def has_fit(self) -> bool:
        """True if a model was fitted."""
        return any(table.role == "train" for table in self._tables)

    def take(self, table: FittedTable) -> None:
        """Store a table unless it is already stored."""
        if not any(one.x is table.x and one.role == table.role for one in self._tables):
            self._tables.append(table)

    def results(
        self, checks: Sequence[Check], seconds: float, *, asks: int = 0
    ) -> list[CheckResult]:
        """Run the checks of data on the table of the largest fit, and on the evaluation tables.

        Args:
            checks: Checks to run.
            seconds: Time for all checks together.
            asks: Number of samples for a person to predict; 0 = none.
        """
        until = time.monotonic() + seconds
        subject = self._subject()
        found = []
        for place, check in enumerate(checks):
            left = until - time.monotonic()
            share = left * (CHECK_SHARE if place + 1 < len(checks) else 1.0)
            timed = Subject(
                datasets=subject.datasets,
                task=subject.task,
                missing=subject.missing,
                asks=asks,
                deadline=time.monotonic() + share,
            )
            found.append(result_of(check, timed, 0))
        return found

    def _subject(self) -> Subject:
        fits = [one for one in self._tables if one.role == "train"]
        train = max(fits, key=lambda one: (one.direct, _size(one.x)))
        evaluations = [one for one in self._tables if one.role == "evaluation"]
        others = [
            one
            for one in evaluations
            if one.x is not train.x and _columns(one.x) == _columns(train.x)
        ]
        codes = _Codes()
        sets = [codes.table(one) for one in (train, *others)]
        return Subject(
            datasets=[one for one in sets if one is not None],
            task=train.task,
            missing={"step": NO_STEP, "trials": NO_STEP},
        )


class _Codes:
    """Numbers for strings, the same in all tables of a script."""

    def __init__(self) -> None:
        self._known: dict[str, int] = {}

    def table(self, given: FittedTable) -> ArraySet | None:
        """Return a dataset; None if a table cannot be read."""
        x = self._numbers(given.x)
        if x is None or not len(x) or x.size > MAX_VALUES:
            return None
        y = None if given.y is None else self._numbers(given.y)
        return ArraySet(
            [x],
            None if y is None or len(y) != len(x) else y,
            given.role,
            name=f"the table of {given.model}" if given.model else "the table",
            location=given.location,
        )

    def _numbers(self, value: Any) -> Array | None:
        if hasattr(value, "toarray"):
            value = value.toarray() if value.shape[0] * value.shape[1] <= MAX_VALUES else None
        if hasattr(value, "columns") and hasattr(value, "iloc"):
            parts = [self._plain(np.asarray(value.iloc[:, n])) for n in range(value.shape[1])]
            return np.stack(parts, axis=1) if parts else None
        try:
            found = np.asarray(value)
        except (TypeError, ValueError):
            return None
        return self._plain(found) if found.ndim else None

    def _plain(self, array: Array) -> Array:
        """Return numbers; each string gets a number."""
        if array.dtype.kind in "biuf":
            return array
        texts = [str(one) for one in array.reshape(-1)]
        codes = [self._known.setdefault(text, len(self._known)) for text in texts]
        return np.array(codes).reshape(array.shape)


def _size(x: Any) -> int:
    shape: tuple[int, ...] = getattr(x, "shape", ())
    return int(shape[0]) if shape else len(x) if hasattr(x, "__len__") else 0


def _columns(x: Any) -> int:
    shape: tuple[int, ...] = getattr(x, "shape", ())
    return int(shape[1]) if len(shape) > 1 else 0
