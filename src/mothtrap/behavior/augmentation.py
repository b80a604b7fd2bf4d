"""Advice on additional training rows: only where a finding asks for it, and tested first.

Shape suffixes: R = rows.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from mothtrap.behavior.sklearn.comparisons import kept_by_neighbors
from mothtrap.behavior.subject import Judged, Predict, Subject
from mothtrap.behavior.table import Table
from mothtrap.behavior.transformations import Kind, Transformation, menu
from mothtrap.core.errors import ConfigError, NotApplicable
from mothtrap.core.findings import Finding

Floats = npt.NDArray[np.float64]

NOISE = ("BEH106", "BEH402")
"""Findings that ask for rows with noise."""
MORE_ROWS = ("BEH201", "BEH302", "BEH304", "BEH401", "BEH701")
"""Findings that ask for more rows of any kind."""
ROWS = 500
"""Rows on which a transformation is tested; chosen by hand."""
KEPT = 0.9
"""Share of correct answers that must stay correct; chosen by hand."""
LEAST_NEIGHBORS = 50
"""Rows among which the nearest neighbors are searched for, at least; chosen by hand."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Augmentation:
    """A transformation of training rows, and its tested effect.

    Attributes:
        name: name of the transformation.
        is_safe: Whether it preserves the labels.
        kept_by_model: share of the model's correct answers that stay correct.
        kept_by_neighbors: the same for the nearest neighbors; None if rows have no distance.
        gain: decrease of the mean held-out loss if the model is also trained on transformed rows;
            None if it was not tried.
        error: standard error of the gain.
        code: the transformation as code.
        asked_by: Codes of the findings that suggest it.
    """

    name: str
    is_safe: bool
    kept_by_model: float
    kept_by_neighbors: float | None
    gain: float | None
    error: float | None
    code: str
    asked_by: tuple[str, ...]

    @property
    def advice(self) -> str:
        """Advice for the user, in one sentence."""
        if not self.is_safe:
            return f"{self.name}: changes the label, do not use it"
        if self.gain is None or self.error is None:
            return f"{self.name}: keeps the label; pass train= and refit= to try it"
        verdict = "helps" if self.gain > 2 * self.error else "does not help"
        if self.gain < -2 * self.error:
            verdict = "harms"
        return (
            f"{self.name}: keeps the label and {verdict}: gain {self.gain:.3g} ± {self.error:.2g}"
        )


def augmentations(
    subject: Subject, findings: Sequence[Finding], kind: Kind | None = None, trials: bool = True
) -> tuple[Augmentation, ...]:
    """Return tested transformations if a finding or the user asks for more training rows.

    Args:
        subject: The probed model and its rows.
        findings: Findings of the probe run.
        kind: Kind of rows; all transformations of this kind are tested. By default, the kind
            follows from the shape, and only transformations that a finding suggests are tested.
        trials: Train the model with and without the transformed rows, if possible.

    Raises:
        NotApplicable: the model predicts numbers, or the rows have no known kind.
    """
    asked = tuple(dict.fromkeys(f.code for f in findings if f.code in (*NOISE, *MORE_ROWS)))
    if not asked and kind is None:
        return ()
    if subject.reading.is_regression:
        raise NotApplicable("the model predicts numbers: a transformation has no label to keep")
    chosen = menu(kind or _kind_of(subject))
    if kind is None and not set(asked) & set(MORE_ROWS):
        chosen = tuple(each for each in chosen if each.name.startswith("noise"))
    tested = [_tested(subject, each, asked) for each in chosen]
    if not trials or subject.train is None or subject.options.refit is None:
        return tuple(tested)
    return tuple(_tried(subject, chosen, tested))


def _kind_of(subject: Subject) -> Kind:
    data = subject.table.data
    if getattr(data, "ndim", 0) in (3, 4):
        return "image"
    columns = subject.table.columns
    if columns and all(each.is_number for each in columns):
        return "table"
    raise NotApplicable('the rows have no known kind; pass kind="text" or kind="sound"')


def _values(table: Table) -> npt.NDArray[Any]:
    data = table.data
    if isinstance(data, dict):
        raise NotApplicable("the rows are a mapping of columns; pass a data frame or an array")
    return np.asarray(data.to_numpy() if hasattr(data, "to_numpy") else data)


def _as_given(table: Table, values: npt.NDArray[Any]) -> Any:
    """Return values in the same container type as the rows of a table."""
    if hasattr(table.data, "iloc"):
        return type(table.data)(values, columns=table.data.columns)
    if hasattr(table.data, "columns"):
        raise NotApplicable("only arrays and pandas data frames are transformed")
    return values.astype(table.data.dtype) if table.data.dtype.kind == "f" else values


def _tested(subject: Subject, each: Transformation, asked: tuple[str, ...]) -> Augmentation:
    """Compare the answers to transformed rows with the labels."""
    rows = np.sort(subject.asked[:ROWS])
    table, target_R = subject.table.take(rows), subject.judged.target_R[rows]
    values = _values(table)
    changed = each.make(values, target_R, subject.rng(f"augmentation {each.name}"))
    right_R = subject.judged.wrong_R[rows] == 0
    answer = subject.ask(Table(_as_given(table, changed)))
    by_model = float((answer.argmax(axis=1) == target_R)[right_R].mean()) if right_R.any() else 0.0
    by_neighbors = _by_neighbors(subject, rows, values, changed)
    kept = [by_model] if by_neighbors is None else [by_model, by_neighbors]
    return Augmentation(
        name=each.name,
        is_safe=min(kept) >= KEPT,
        kept_by_model=by_model,
        kept_by_neighbors=by_neighbors,
        gain=None,
        error=None,
        code=each.code,
        asked_by=asked,
    )


def _by_neighbors(
    subject: Subject, rows: npt.NDArray[np.int64], values: Any, changed: Any
) -> float | None:
    """Return how many correct answers of the nearest neighbors among other rows stay correct."""
    if values.dtype.kind not in "fiu":
        return None
    source = subject.train if subject.train is not None else subject.judged
    others = np.arange(len(source))
    if source is subject.judged:
        others = np.setdiff1d(others, rows)
    if len(others) < LEAST_NEIGHBORS:
        return None
    known = _values(source.table.take(others))
    return kept_by_neighbors(
        known, source.target_R[others], values, changed, subject.judged.target_R[rows]
    )


def _tried(
    subject: Subject, chosen: Sequence[Transformation], tested: Sequence[Augmentation]
) -> list[Augmentation]:
    """Train the model with and without the rows of each safe transformation."""
    train, refit = subject.train, subject.options.refit
    assert train is not None
    assert refit is not None
    label_R = np.array(subject.reading.classes, object)[train.target_R]
    labels = np.array(label_R.tolist())
    plain = _losses(subject, refit(train.table.data, labels))
    found = []
    for each, test in zip(chosen, tested, strict=True):
        if not test.is_safe:
            found.append(test)
            continue
        rng = subject.rng(f"trial {each.name}")
        values = _values(train.table)
        more = each.make(values, train.target_R, rng)
        both = _as_given(train.table, np.concatenate([values, more]))
        gain_R = plain - _losses(subject, refit(both, np.concatenate([labels, labels])))
        found.append(_with_gain(test, gain_R))
    return found


def _with_gain(test: Augmentation, gain_R: Floats) -> Augmentation:
    error = float(gain_R.std(ddof=1) / np.sqrt(len(gain_R)))
    return dataclasses.replace(test, gain=float(gain_R.mean()), error=error)


def _losses(subject: Subject, predict: Predict) -> Floats:
    """Return the loss of each confirming row (R,) for another model."""
    judged = subject.judged
    rows = np.flatnonzero(subject.confirm_R)
    table = judged.table.take(rows)
    subject.budget.spend(len(table))
    scores = subject.reading.scores(predict(table.data))
    if scores.shape[1] != judged.scores.shape[1]:
        raise ConfigError(
            "the refitted model returns predictions of a different shape from the model's"
        )
    again = Judged(
        table, judged.target_R[rows], scores, subject.reading, judged.rows_R[rows], judged.loss
    )
    return again.loss_R
