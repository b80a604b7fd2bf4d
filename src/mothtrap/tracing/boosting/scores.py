"""Comparison of predictions with labels: confusion, precision, recall, ROC, errors, residuals.

Shape suffixes: R = rows, K = classes, B = bins.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt

from mothtrap.core.facts.trees import ScoresSeen
from mothtrap.statistics.products import correlation

Floats = npt.NDArray[np.float64]
MAX_CLASSES: Final = 20
BINS: Final = 10
ROC_POINTS: Final = 101
CUTOFF: Final = 0.5


def scores(
    predicted: npt.NDArray[Any],
    label_R: Floats,
    *,
    task: str,
    step: int,
    fit: str,
    site: str,
    rounds: int,
    last: bool = False,
) -> ScoresSeen | None:
    """Compare predictions with labels; None if they do not match.

    Args:
        predicted: probabilities (R,) of two classes, (R, K) of several, class numbers (R,), or
            numbers (R,).
        label_R: class numbers from 0, or numbers.
        task: see `BoostingBegan`.
        step: step in progress.
        fit: label of the training run.
        site: name of the data.
        rounds: rounds that are complete.
        last: the training is over.
    """
    known_R = np.isfinite(label_R)
    if len(predicted) != len(label_R) or not known_R.any():
        return None
    predicted = np.asarray(predicted, np.float64)[known_R]
    label_R = label_R[known_R]
    found: dict[str, Any] = {}
    if task in ("two_classes", "classes"):
        found = _of_classes(predicted, label_R, task)
    elif task in ("regression", "counts") and predicted.ndim == 1:
        found = _of_numbers(predicted, label_R)
    elif not task and predicted.ndim == 1 and np.ptp(predicted) > 0 and np.ptp(label_R) > 0:
        found = {"relation": correlation(predicted, label_R)}
    if not found:
        return None
    return ScoresSeen(
        step=step, fit=fit, site=site, rounds=rounds, rows=len(label_R), last=last, **found
    )


def _of_classes(predicted: npt.NDArray[Any], label_R: Floats, task: str) -> dict[str, Any]:
    number_R = label_R.astype(np.int64)
    if (number_R != label_R).any() or number_R.min() < 0 or number_R.max() >= MAX_CLASSES:
        return {}
    if predicted.ndim == 2:
        chosen_R = predicted.argmax(axis=1)
    elif task == "two_classes":
        chosen_R = (predicted > CUTOFF).astype(np.int64)
    else:
        chosen_R = predicted.astype(np.int64)
    classes = int(max(number_R.max(), chosen_R.max())) + 1
    if classes > MAX_CLASSES or chosen_R.min() < 0:
        return {}
    confusion_KK = np.zeros((classes, classes), np.int64)
    np.add.at(confusion_KK, (number_R, chosen_R), 1)
    right_K = np.diagonal(confusion_KK)
    named_K, held_K = confusion_KK.sum(axis=0), confusion_KK.sum(axis=1)
    precision_K = right_K / np.maximum(named_K, 1)
    recall_K = right_K / np.maximum(held_K, 1)
    f1_K = 2 * right_K / np.maximum(named_K + held_K, 1)
    found: dict[str, Any] = {
        "confusion": tuple(map(tuple, confusion_KK.tolist())),
        "precision": tuple(precision_K.tolist()),
        "recall": tuple(recall_K.tolist()),
        "f1": tuple(f1_K.tolist()),
        "accuracy": float(right_K.sum() / len(label_R)),
    }
    two = classes == 2 and (predicted.ndim == 1 or predicted.shape[1] == 2)
    if two and task == "two_classes" and held_K.min() > 0:
        score_R = predicted if predicted.ndim == 1 else predicted[:, 1]
        found["auc"], found["roc"] = _roc(score_R, number_R)
    return found


def _roc(score_R: Floats, number_R: npt.NDArray[np.int64]) -> tuple[float, Any]:
    """Return the area under the ROC curve, and points of the curve."""
    order = np.argsort(-score_R, kind="stable")
    last_R = np.append(np.diff(score_R[order]) != 0, True)
    true_R = np.cumsum(number_R[order])[last_R]
    false_R = np.cumsum(1 - number_R[order])[last_R]
    x, y = np.append(0, false_R) / false_R[-1], np.append(0, true_R) / true_R[-1]
    area = float(((x[1:] - x[:-1]) * (y[1:] + y[:-1])).sum() / 2)
    at = np.unique(np.linspace(0, len(x) - 1, min(ROC_POINTS, len(x))).astype(int))
    return area, tuple(zip(x[at].tolist(), y[at].tolist(), strict=True))


def _of_numbers(predicted_R: Floats, label_R: Floats) -> dict[str, Any]:
    if not np.isfinite(predicted_R).all():
        return {}
    residual_R = label_R - predicted_R
    edges = np.linspace(label_R.min(), label_R.max(), BINS + 1)
    bin_R = np.clip(np.searchsorted(edges, label_R, side="right") - 1, 0, BINS - 1)
    count_B = np.bincount(bin_R, minlength=BINS)
    error_B = np.bincount(bin_R, weights=np.abs(residual_R), minlength=BINS)
    counts, residual_edges = np.histogram(residual_R, bins=BINS)
    return {
        "error_edges": tuple(edges.tolist()),
        "error_per_bin": tuple((error_B / np.maximum(count_B, 1)).tolist()),
        "residual_edges": tuple(residual_edges.tolist()),
        "residuals": tuple(counts.tolist()),
    }
