"""BEH107: the model answers with NaN, or accepts columns in the wrong order."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from mothtrap.behavior.curves import some_rows
from mothtrap.behavior.probe import Probe, Suspicion, percent
from mothtrap.behavior.subject import Subject
from mothtrap.behavior.table import Column, Table
from mothtrap.core.findings import Severity
from mothtrap.core.frozen import frozen
from mothtrap.core.thresholds import threshold

ROWS = 64
MAX_COLUMNS = 50
UNSEEN = "a value that no row has"
UNSEEN_KIND = "a category that no row has"
OUTSIDE_KIND = "a number far outside of its range"
FOR_LEVELS = "Train the model with a separate level for unseen categories, or refuse such rows."
FOR_NUMBERS = "Refuse rows with missing or infinite numbers, or fill them in as in training."


@frozen
class InvalidAnswers(Probe):
    """The model returns NaN for unusual inputs, or accepts columns in the wrong order.

    What it detects:
        Predictions for the rows as given, for single rows, missing and infinite values, unseen
        categories, unusual combinations of values, extreme values, and columns in a different
        order.

    Why it matters:
        An exception is noticed and handled. NaN and predictions from the wrong columns end up in
        decisions.

    Fires:
        When a prediction is not finite, a single row is refused, or a data frame with columns in
        another order gets other predictions. An exception for a missing, infinite, or unseen value
        is fine. NaN for a missing, infinite, or very low number is a note, and so are columns that
        are read by position, as in LightGBM.

    Stays quiet:
        Arrays without column names, which are not reordered.

    What to do:
        - Check inputs before the prediction, and refuse rows that the model was not trained for.
        - Select the columns by name: `X = X[names]`.
        - Train the model with a separate level for unseen categories.
    """

    code = "BEH107"
    severity = Severity.WARNING

    attack_rows: int = threshold(1000, unit="rows", source="chosen by hand")

    def look(self, subject: Subject) -> Iterator[Suspicion]:
        """Pass odd inputs to the model."""
        rows = some_rows(subject, ROWS)
        yield from self._single(subject, rows)
        yield from self._attack(subject)
        for kind, make in _KINDS.items():
            bad = [
                column.name
                for column in rows.columns[:MAX_COLUMNS]
                if self._gives_nan(subject, rows, column, make)
            ]
            if bad:
                yield Suspicion(
                    message=f"the model returns NaN where {', '.join(bad[:5])} "
                    f"{'have' if len(bad) > 1 else 'has'} {kind}",
                    features=tuple(bad),
                    severity=None if kind == UNSEEN_KIND else Severity.INFO,
                    fixes=(FOR_LEVELS if kind == UNSEEN_KIND else FOR_NUMBERS,),
                    exact=True,
                    evidence={"value": kind, "n": len(bad)},
                )
        yield from self._reordered(subject, rows)

    def _single(self, subject: Subject, rows: Table) -> Iterator[Suspicion]:
        try:
            subject.ask(rows.take(np.array([0])))
        except Exception as err:  # whatever the model raises
            _reraise_own(err)
            yield Suspicion(
                message=f"the model fails on a single row: {err}",
                fixes=("Do not use statistics of the rows of a call in the prediction.",),
                exact=True,
                evidence={"value": str(err)},
            )

    def _attack(self, subject: Subject) -> Iterator[Suspicion]:
        """Pass unusual combinations of usual values, and extreme values."""
        rows, rng = subject.table.take(subject.asked[: self.attack_rows]), subject.rng("attack")
        if not rows.columns or len(rows) < 2:
            return
        new: dict[str, Any] = {}
        for column in rows.columns:
            given_R = np.asarray(column.given_R)[rng.permutation(len(rows))]
            if column.number_R is not None and len(column.known_R):
                ends = rng.choice([column.known_R.min(), column.known_R.max()], len(rows))
                given_R = np.where(rng.random(len(rows)) < 0.2, ends, given_R)
            new[column.name] = given_R
        answer = _answered(subject, rows.replaced(new))
        if answer is not None and not np.isfinite(answer).all():
            count = int((~np.isfinite(answer).all(axis=1)).sum())
            yield Suspicion(
                message=f"{count:,} of {len(rows):,} unusual combinations of usual values get "
                "NaN or infinity",
                exact=True,
                evidence={"n": len(rows), "value": count},
            )

    def _gives_nan(
        self, subject: Subject, rows: Table, column: Column, make: Callable[[Column], Any]
    ) -> bool:
        value = make(column)
        if value is _NOT_POSSIBLE:
            return False
        try:
            asked = rows.replaced({column.name: value})
        except (TypeError, ValueError):  # the container cannot hold the value
            return False
        answer = _answered(subject, asked)
        return answer is not None and bool(np.isnan(answer).any())

    def _reordered(self, subject: Subject, rows: Table) -> Iterator[Suspicion]:
        if not rows.is_named or len(rows.columns) < 2 or isinstance(rows.data, dict):
            return
        before, after = _answered(subject, rows), _answered(subject, rows.reordered())
        if before is None or after is None:
            return
        changed_R = (np.abs(after - before) > 1e-6 * subject.output_range).any(axis=1)
        if changed_R.any():
            yield Suspicion(
                message=f"with its columns in a different order, {percent(changed_R.mean())}"
                + " of the rows get another prediction and no error: columns are read by position",
                severity=Severity.INFO,
                fixes=("Select the columns by name before the prediction: `X = X[names]`.",),
                exact=True,
                evidence={"n": len(rows), "value": float(changed_R.mean())},
            )


_NOT_POSSIBLE = object()


def _missing(column: Column) -> Any:
    if column.missing_R.any():
        return _NOT_POSSIBLE  # missing values are usual in this column
    return np.nan if column.is_number else None


def _infinite(column: Column) -> Any:
    return np.inf if column.is_number else _NOT_POSSIBLE


def _unseen(column: Column) -> Any:
    return _NOT_POSSIBLE if column.is_number else UNSEEN


def _below(column: Column) -> Any:
    """Return a number below all others, negative where all others are positive."""
    if not column.is_number or not len(column.known_R):
        return _NOT_POSSIBLE
    low, high = float(column.known_R.min()), float(column.known_R.max())
    return low - max(high - low, 1.0)


_KINDS: dict[str, Callable[[Column], Any]] = {
    "no value": _missing,
    "an infinite value": _infinite,
    OUTSIDE_KIND: _below,
    UNSEEN_KIND: _unseen,
}


def _answered(subject: Subject, rows: Table) -> Any:
    """Return the answers to rows; None if the model refuses them."""
    try:
        return subject.ask(rows)
    except Exception as err:  # whatever the model raises
        _reraise_own(err)
        return None


def _reraise_own(err: Exception) -> None:
    from mothtrap.behavior.budget import BudgetSpent

    if isinstance(err, BudgetSpent):
        raise err
