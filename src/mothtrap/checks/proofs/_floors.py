"""Lower bounds of losses, and losses at which known mistakes end."""

from __future__ import annotations

import math

import numpy as np

from mothtrap.checks.step import LossSeen

NEAR = 0.03
"""Relative difference up to which a loss equals the loss of a known mistake; chosen by hand."""


def least_loss(loss: LossSeen) -> float:
    """Return the lower bound of a loss with these targets; 0 if it is unknown."""
    return max(_least_by_targets(loss), _least_by_predictions(loss))


def _least_by_predictions(loss: LossSeen) -> float:
    """Return the loss of the best guess for predictions that are equal from the start.

    Positions whose inputs look the same to the model, such as equal tokens in a bigram model, get
    equal predictions forever. It is 0 if all predictions are equal: then the model may be dead.
    """
    if not loss.has_classes or not loss.alone or loss.prediction.ndim < 2:
        return 0.0
    scores = np.moveaxis(loss.prediction, 1, -1).reshape(-1, loss.classes)
    labels = loss.target.reshape(-1)
    if len(scores) != len(labels) or loss.options.get("weight") is not None:
        return 0.0
    known = labels != loss.options.get("ignore_index", -100)
    scores, labels = scores[known], labels[known]
    groups = np.unique(scores, axis=0, return_inverse=True)[1].reshape(-1)
    if not len(labels) or groups.max() < 1:
        return 0.0
    pairs = np.unique(np.stack([groups, labels]), axis=1, return_counts=True)
    of_group = np.bincount(groups)[pairs[0][0]]
    return float(-(pairs[1] * np.log(pairs[1] / of_group)).sum() / len(labels))


def _least_by_targets(loss: LossSeen) -> float:
    smoothing = float(loss.options.get("label_smoothing", 0.0))
    if loss.operation == "cross_entropy" and loss.has_classes and smoothing:
        rest = smoothing / loss.classes
        own = 1 - smoothing + rest
        return -own * math.log(own) - (loss.classes - 1) * rest * math.log(rest)
    soft = loss.operation == "cross_entropy" and not loss.has_classes
    if soft and loss.target.dtype.kind == "f" and loss.target.ndim > 1:
        share = np.clip(loss.target, 1e-12, 1)
        return float(-(share * np.log(share)).sum(1).mean())
    if loss.operation.startswith("binary_cross_entropy"):
        share = np.clip(loss.target.astype(float), 1e-12, 1 - 1e-12)
        return float(-(share * np.log(share) + (1 - share) * np.log(1 - share)).mean())
    if loss.operation == "poisson_nll_loss" and loss.options.get("log_input", True):
        target = loss.target.astype(float)
        return max(0.0, float((target - target * np.log(np.maximum(target, 1e-8))).mean()))
    return 0.0


def compares_rows(loss: LossSeen) -> bool:
    """Return whether the classes of a loss are the rows of the batch, as in contrastive losses."""
    size = loss.target.size
    each_once = np.array_equal(np.sort(loss.target, axis=None), np.arange(size))
    return loss.has_classes and loss.prediction.shape == (size, size) and each_once


def ends_at_zero(loss: LossSeen) -> bool:
    """Return whether a model that knows every target has a loss of almost 0.

    It is unknown for losses with several terms, losses that compare the rows of a batch, and
    targets as large as the inputs, as in autoencoders.
    """
    if not loss.alone:
        return False
    if loss.has_classes:
        return not compares_rows(loss)
    if loss.operation.startswith("binary_cross_entropy"):
        return bool(np.isin(loss.target, (0, 1)).all())
    return loss.operation == "mse_loss" and loss.target.ndim <= 2 and loss.target.shape[-1] < 32


def known_floor(loss: LossSeen, level: float, right: float = 1.0) -> str:
    """Name the mistake that explains a final loss; '' if no mistake does.

    Args:
        loss: the loss.
        level: its value at the end of the trial.
        right: share of the class labels predicted by then; NaN if unknown.
    """
    if loss.operation == "cross_entropy" and loss.has_classes and loss.classes > 1:
        wrong = 0.0 if math.isnan(right) else 1 - right
        twice = math.log(math.e + loss.classes - 1) - 1 + wrong  # a wrong row costs 1 more
        if abs(level - twice) < NEAR * twice:
            return f"softmax before cross_entropy for {loss.classes} classes"
    if loss.operation == "binary_cross_entropy_with_logits" and loss.target.size:
        positive = float(loss.target.mean())
        twice = positive * math.log1p(math.exp(-1.0)) + (1 - positive) * math.log(2.0)
        if abs(level - twice) < NEAR * twice:
            return "a sigmoid before binary_cross_entropy_with_logits"
    return ""
