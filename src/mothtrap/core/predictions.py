"""Confusion matrix, ROC and precision-recall curves of a classifier's scores."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from mothtrap.core.record_items import Curve, Predictions

Array = npt.NDArray[Any]
MAX_CLASSES = 200
"""Maximum number of classes of a stored confusion matrix; chosen by hand: more cannot be inspected.
"""
MAX_CURVES = 10
"""Maximum number of classes with curves, the most frequent first."""
POINTS = 200
"""Number of points of a curve: its ends, and evenly spaced points between them."""


def predictions(labels: Array, scores: Array, names: Sequence[str] = ()) -> Predictions:
    """Compute the confusion matrix and curves of a classifier's scores.

    Args:
        labels: true classes, integers, shape (N,).
        scores: probabilities or logits, shape (N, classes), or (N,) for class 1 of two; whole
            numbers of shape (N,) are predicted classes, which have no curves.
        names: names of the classes.

    Raises:
        ValueError: shapes or values do not match; the message gives the reason.
    """
    labels = labels.reshape(-1)
    if labels.dtype.kind == "f" and np.all(labels == np.floor(labels)):
        labels = labels.astype(np.int64)
    if labels.dtype.kind not in "iub":
        raise ValueError(f"labels must be whole numbers, not {labels.dtype}")
    labels = labels.astype(np.int64)
    scores = scores.reshape(-1) if scores.ndim == 2 and scores.shape[1] == 1 else scores
    if scores.ndim not in (1, 2) or len(scores) != len(labels) or not len(labels):
        raise ValueError(
            f"expected as many scores as labels, and at least one: {len(labels)} labels, scores of "
            f"shape {scores.shape}"
        )
    chosen, by_class = _chosen(scores)
    count = max(int(labels.max()), int(chosen.max()), len(names) - 1, 1) + 1
    count = max(count, 0 if by_class is None else by_class.shape[1])
    if int(labels.min()) < 0 or int(chosen.min()) < 0 or count > MAX_CLASSES:
        raise ValueError(
            f"classes must be numbers from 0 to {MAX_CLASSES - 1}, not from {int(labels.min())} "
            f"to {count - 1}"
        )
    confusion = np.zeros((count, count), np.int64)
    np.add.at(confusion, (labels, chosen), 1)
    shown = [str(names[i]) if i < len(names) else str(i) for i in range(count)]
    roc, recall = _curves(labels, by_class, shown)
    return Predictions(
        classes=shown,
        confusion=confusion.tolist(),
        count=len(labels),
        accuracy=float(np.mean(labels == chosen)),
        roc=roc,
        precision_recall=recall,
        left_out="" if by_class is not None else "curves: predicted classes have no scores",
    )


def _chosen(scores: Array) -> tuple[Array, Array | None]:
    """Return the predicted class of each row, and the scores by class if there are any."""
    if scores.ndim == 2:
        finite = np.where(np.isfinite(scores), scores.astype(np.float64), -np.inf)
        return np.argmax(finite, axis=1), finite
    if scores.dtype.kind in "iub":
        return scores.astype(np.int64), None
    values = np.where(np.isfinite(scores), scores.astype(np.float64), -np.inf)
    finite = values[np.isfinite(values)]
    are_probabilities = bool(len(finite)) and finite.min() >= 0 and finite.max() <= 1
    limit = 0.5 if are_probabilities else 0.0
    return (values > limit).astype(np.int64), np.stack([-values, values], axis=1)


def _curves(
    labels: Array, scores: Array | None, names: Sequence[str]
) -> tuple[list[Curve], list[Curve]]:
    if scores is None:
        return [], []
    counts = np.bincount(labels, minlength=scores.shape[1])[: scores.shape[1]]
    whole = [c for c in np.argsort(-counts, kind="stable") if 0 < counts[c] < len(labels)]
    wanted = [1] if scores.shape[1] == 2 and 1 in whole else whole[:MAX_CURVES]
    roc, recall = [], []
    for number in wanted:
        first, second = _of_class(labels == number, scores[:, number], names[number])
        roc.append(first)
        recall.append(second)
    return roc, recall


def _of_class(is_it: Array, score: Array, name: str) -> tuple[Curve, Curve]:
    order = np.argsort(-score, kind="stable")
    hits, ranked = is_it[order], score[order]
    ends = np.flatnonzero(np.diff(ranked) != 0)  # equal scores share one threshold
    ends = np.append(ends, len(ranked) - 1)
    true = np.cumsum(hits)[ends].astype(np.float64)
    false = 1.0 + ends - true
    recall, precision = true / true[-1], true / (true + false)
    rates = np.append(0.0, false / max(false[-1], 1.0)), np.append(0.0, recall)
    area = float(np.sum(np.diff(rates[0]) * (rates[1][1:] + rates[1][:-1]) / 2))
    average = float(np.sum(np.diff(np.append(0.0, recall)) * precision))
    return (
        Curve(label=name, area=area, x=_thinned(rates[0]), y=_thinned(rates[1])),
        Curve(label=name, area=average, x=_thinned(recall), y=_thinned(precision)),
    )


def _thinned(values: Array) -> list[float]:
    places = np.unique(np.linspace(0, len(values) - 1, min(POINTS, len(values))).astype(int))
    return [round(float(value), 6) for value in values[places]]
