"""Meaning of a model's answers: probabilities, labels or numbers, and the loss of each row.

Shape suffixes: R = rows, K = classes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal

import msgspec
import numpy as np
import numpy.typing as npt

from mothtrap.core.errors import ConfigError

Floats = npt.NDArray[np.float64]
Form = Literal["probabilities", "logits", "labels", "numbers"]
Loss = Callable[[npt.NDArray[Any], npt.NDArray[Any]], npt.NDArray[Any]]

MAX_CLASSES = 100
"""Distinct whole numbers among the targets up to which they are taken for classes; chosen by
hand."""
LEAST_PROBABILITY = 1e-3
"""Lower bound on the probability of the true class, so that a row costs at most 6.9; chosen by
hand: without a bound, a single row could dominate the mean."""
SUM_TOLERANCE = 1e-2


class Reading(msgspec.Struct, frozen=True, kw_only=True):
    """Interpretation of a model's predictions.

    `classes` are the labels in the order of the columns of probabilities; empty for regression.
    """

    form: Form
    classes: tuple[Any, ...] = ()

    @property
    def is_regression(self) -> bool:
        """True if the model predicts numbers."""
        return self.form == "numbers"

    @property
    def has_probabilities(self) -> bool:
        """True if the model returns probabilities."""
        return self.form in ("probabilities", "logits")

    def scores(self, answer: Any) -> Floats:
        """Convert predictions to numbers.

        Returns:
            (R, K) probabilities, or one-hot rows for labels; (R, 1) numbers for regression.

        Raises:
            ConfigError: the predictions do not have the same form as before.
        """
        given = np.asarray(answer)
        if given.ndim > 1 and given.shape[-1] == 1:
            given = given[..., 0]
        if self.form == "labels":
            known = np.array([str(c) for c in self.classes])
            texts_R = np.array([_text(v) for v in given.ravel()])
            return np.asarray(texts_R[:, None] == known, np.float64)
        values = given.astype(np.float64)
        if self.form == "numbers":
            return values.reshape(len(values), -1)[:, :1]
        if self.form == "logits":
            values = _squashed(values)
        if values.ndim == 1:
            values = np.stack([1 - values, values], axis=1)
        if values.ndim != 2 or values.shape[1] != len(self.classes):
            raise ConfigError(
                f"the model returned predictions of shape {given.shape}; expected "
                f"(rows, {len(self.classes)}), one column for each class"
            )
        return values

    def targets(self, y: Any) -> npt.NDArray[Any]:
        """Return the targets: numbers (R,), or indices of classes (R,), -1 for an unknown class."""
        if self.is_regression:
            return np.asarray(y, np.float64)
        place = {_text(label): k for k, label in enumerate(self.classes)}
        return np.array([place.get(_text(v), -1) for v in np.asarray(y).ravel()], np.int64)

    def losses(self, scores: Floats, target_R: npt.NDArray[Any]) -> Floats:
        """Return the loss of each row (R,): log loss, 0/1 for labels, squared error for numbers."""
        if self.is_regression:
            squared_R: Floats = (scores[:, 0] - target_R) ** 2
            return squared_R
        at_R: Floats = scores[np.arange(len(scores)), np.maximum(target_R, 0)] * (target_R >= 0)
        if self.form == "labels":
            return np.asarray(1.0 - at_R)
        logs_R: Floats = -np.log(np.clip(at_R, LEAST_PROBABILITY, 1.0))
        return logs_R

    def wrong(self, scores: Floats, target_R: npt.NDArray[Any]) -> Floats:
        """Return 1 for each row whose most probable class is wrong, otherwise 0; shape (R,)."""
        return np.asarray(scores.argmax(axis=1) != target_R, np.float64)


def read(answer: Any, y: Any, task: str | None = None, classes: Sequence[Any] = ()) -> Reading:
    """Determine the form of a model's predictions from their shape, their range, and the targets.

    Args:
        answer: Predictions for the rows of `y`.
        y: Targets.
        task: "classification" or "regression", where that is known.
        classes: labels in the order of the columns, where they are known.

    Raises:
        ConfigError: predictions and targets do not fit together, or `task` is unknown.
    """
    if task not in (None, "classification", "regression"):
        raise ConfigError(f"task: expected classification or regression, found {task!r}")
    given, targets = np.asarray(answer), np.asarray(y)
    if len(given) != len(targets):
        raise ConfigError(
            f"the model returned {len(given):,} predictions for {len(targets):,} targets; "
            "predict must return one prediction per row"
        )
    if given.ndim > 1 and given.shape[-1] == 1:
        given = given[..., 0]
    if given.ndim > 2:
        raise ConfigError(
            f"the model returned predictions of shape {given.shape}; expected (rows,) or "
            "(rows, classes)"
        )
    if given.ndim == 2:
        return _of_columns(given, targets, classes)
    if task == "regression" or (task is None and not _are_classes(given, targets)):
        if targets.dtype.kind not in "biuf":
            raise ConfigError("the targets are not numbers, but the model predicts numbers")
        return Reading(form="numbers")
    labels = tuple(classes) or tuple(np.unique(targets).tolist())
    if given.dtype.kind in "OSUbiu" or _all_labels(given, labels):
        found = {_text(v): v for v in [*labels, *np.unique(given).tolist()]}
        return Reading(form="labels", classes=tuple(found.values()))
    if len(labels) > 2:
        raise ConfigError(
            f"the model returns one number per row, but there are {len(labels)} classes; "
            "pass a function that returns probabilities (rows, classes), or labels"
        )
    labels = labels if len(labels) == 2 else (0, 1)
    inside = bool(((given >= 0) & (given <= 1)).all())
    return Reading(form="probabilities" if inside else "logits", classes=labels)


def _of_columns(given: npt.NDArray[Any], targets: npt.NDArray[Any], classes: Any) -> Reading:
    count = given.shape[1]
    labels = tuple(classes) or tuple(np.unique(targets).tolist())
    if len(labels) != count:
        if targets.dtype.kind not in "biu" or targets.min() < 0 or targets.max() >= count:
            raise ConfigError(
                f"the model returns {count} columns, but there are {len(labels)} classes; "
                "name them in the order of the columns: classes=[...]"
            )
        labels = tuple(range(count))
    finite = given[np.isfinite(given).all(axis=1)]
    sums = np.abs(finite.sum(axis=1) - 1) < SUM_TOLERANCE
    inside = bool(((finite >= -1e-6) & (finite <= 1 + 1e-6)).all() and sums.all())
    return Reading(form="probabilities" if inside else "logits", classes=labels)


def _are_classes(given: npt.NDArray[Any], targets: npt.NDArray[Any]) -> bool:
    """Return whether targets are classes: texts, two values, or few numbers that are answered."""
    if targets.dtype.kind not in "iuf":
        return True
    distinct = np.unique(targets)
    if len(distinct) == 2:
        return True
    whole = bool((distinct == np.round(distinct)).all())
    return whole and len(distinct) <= MAX_CLASSES and _all_labels(given, tuple(distinct.tolist()))


def _all_labels(given: npt.NDArray[Any], labels: tuple[Any, ...]) -> bool:
    if given.dtype.kind not in "biuf":
        return True
    if not all(isinstance(label, int | float) for label in labels):
        return False
    return bool(np.isin(given, np.array(labels)).all())


def _squashed(values: Floats) -> Floats:
    """Return probabilities: softmax of columns, sigmoid of single numbers."""
    if values.ndim == 1:
        return 1 / (1 + np.exp(-np.clip(values, -500, 500)))
    shifted = np.exp(values - values.max(axis=1, keepdims=True))
    soft: Floats = shifted / shifted.sum(axis=1, keepdims=True)
    return soft


def _text(value: Any) -> str:
    """Return a label as text; whole numbers are the same whatever type they have."""
    if isinstance(value, bool | np.bool_):
        return str(int(value))
    if isinstance(value, int | float | np.number) and float(value).is_integer():
        return str(int(value))
    return str(value)
