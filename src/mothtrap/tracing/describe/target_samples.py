"""Targets of a loss call, computed from arrays on the host.

Shape suffixes: N = elements, R = rows.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

import numpy as np

from mothtrap.core.facts.losses import TargetSample
from mothtrap.tracing.describe import next_tokens
from mothtrap.tracing.describe.copied_targets import copied_places
from mothtrap.tracing.describe.loss_numbers import (
    MAX_TARGETS,
    TOLERANCE,
    Array,
    Called,
    label_counts,
)
from mothtrap.tracing.describe.quiet_numpy import quiet
from mothtrap.tracing.describe.target_leakage import telling_columns
from mothtrap.tracing.describe.target_order import BINS, TargetsInOrder

MAX_CONFUSED: Final = 20
"""Maximum number of classes for which the confusion is counted."""
RANGES: Final = {
    "relu": (0.0, math.inf),
    "softplus": (0.0, math.inf),
    "exp": (0.0, math.inf),
    "sigmoid": (0.0, 1.0),
    "softmax": (0.0, 1.0),
    "tanh": (-1.0, 1.0),
    "hardsigmoid": (0.0, 1.0),
    "log_sigmoid": (-math.inf, 0.0),
    "log_softmax": (-math.inf, 0.0),
    "softsign": (-1.0, 1.0),
}
"""Closed output range of operations with which a model may end."""


@quiet
def sample(
    called: Called, inputs: Sequence[Array], *, columns: bool, decoder: Sequence[Array] = ()
) -> TargetSample:
    """Describe the targets of a call.

    Args:
        called: the loss call.
        inputs: inputs of the model.
        columns: also search for input columns that reveal the target.
        decoder: sequences that later layers of the model receive.
    """
    target = called.target.reshape(-1)[:MAX_TARGETS]
    finite = target.astype(np.float64)
    finite = finite[np.isfinite(finite)]
    telling = _telling_columns(inputs, called) if columns else None
    if columns and telling is None:
        telling = copied_places(inputs, called.target)
    tokens = [*inputs, *decoder] if called.operation == "cross_entropy" else ()
    offsets, decoded = next_tokens.compared(tokens, called.target, called.classes)
    confusion = _confusion(called)
    endings, stops = _ends(called, tokens)
    return TargetSample(
        dtype=called.target.dtype.name,
        count=target.size,
        least=float(finite.min()) if finite.size else None,
        greatest=float(finite.max()) if finite.size else None,
        mean=float(finite.mean()) if finite.size else None,
        std=float(finite.std()) if finite.size else None,
        outside_share=_outside_share(called, finite),
        input_offsets=offsets,
        decoded=decoded,
        telling_columns=telling[0] if telling else None,
        columns=telling[1] if telling else None,
        confusion=confusion,
        surest=_surest(called) if confusion is not None else None,
        row_sums=_row_sums(called),
        endings=endings,
        stops=stops,
    )


def _ends(
    called: Called, inputs: Sequence[Array]
) -> tuple[next_tokens.Endings | None, next_tokens.Stops | None]:
    """Return how sequences end, if the loss does not count all of their labels."""
    label_RL, counted_RL = called.target, called.counted
    if counted_RL is None or label_RL.ndim != 2 or label_RL.dtype.kind not in "iu":
        return None, None
    if counted_RL.shape != label_RL.shape or counted_RL.all():
        return None, None
    labels = np.where(counted_RL, label_RL, next_tokens.UNCOUNTED).astype(np.int64)
    given = [one[: len(labels)] for one in next_tokens.sequences(inputs, called.classes)]
    tokens = [one for one in given if len(one) == len(labels)]
    endings = next_tokens.endings(tokens, labels, next_tokens.UNCOUNTED)
    return (
        endings or next_tokens.marked_endings(label_RL, counted_RL),
        next_tokens.stops(tokens, labels, next_tokens.UNCOUNTED),
    )


@quiet
def leaks(target: Array, inputs: Sequence[Array]) -> TargetSample | None:
    """Describe only which columns of the inputs reveal numeric targets.

    Args:
        target: one number for each row.
        inputs: inputs of the model.

    Returns:
        None if there is no table with as many rows.
    """
    telling = telling_columns([given for given in inputs if given.ndim], target)
    if telling is None:
        return None
    columns, count = telling
    return TargetSample(
        dtype=target.dtype.name, count=target.size, telling_columns=columns, columns=count
    )


def _row_sums(called: Called) -> tuple[float, float] | None:
    if called.operation != "cross_entropy" or called.target.shape != called.prediction.shape:
        return None
    if not called.target.size or not np.isin(called.target, (0, 1)).all():
        return None
    sums_R = called.target.sum(axis=-1, dtype=np.float64)
    return (float(sums_R.min()), float(sums_R.max())) if np.isfinite(sums_R).all() else None


def _outside_share(called: Called, finite_N: Array) -> float | None:
    bounds = RANGES.get(next((name for name in called.chain if name != "cast"), ""))
    if called.operation != "elementwise" or bounds is None or not finite_N.size:
        return None
    low, high = bounds
    return float(((finite_N < low - TOLERANCE) | (finite_N > high + TOLERANCE)).mean())


def _confusion(called: Called) -> tuple[int, ...] | None:
    """Return labels against predicted classes, row by row; None if there are none or too many."""
    classes = called.classes
    if not classes or not 2 <= classes <= MAX_CONFUSED:
        return None
    if called.is_binary:
        if called.prediction.shape != called.target.shape:
            return None
        predicted, labels = (called.prediction > 0.5).astype(np.int64), called.target
    else:
        if called.prediction.ndim != 2 or called.target.ndim != 1:
            return None
        predicted, labels = called.prediction.argmax(axis=-1), called.target
    labels = labels.reshape(-1)
    kept = np.isfinite(labels) & (labels >= 0) & (labels < classes)
    places = labels[kept].astype(np.int64) * classes + predicted.reshape(-1)[kept]
    return tuple(np.bincount(places, minlength=classes * classes).tolist())


def surest(probability_RK: Array, label_R: Array) -> tuple[int, int] | None:
    """Return the size of the surest quarter of the rows, and how many of them have another label.

    Args:
        probability_RK: probability of each class, or of the second class alone (one column).
        label_R: hard labels; labels outside the classes do not count.

    Returns:
        None if there are fewer than 4 rows with a label.
    """
    if probability_RK.shape[1] == 1:
        probability_RK = np.hstack([1 - probability_RK, probability_RK])
    kept_R = (label_R >= 0) & (label_R < probability_RK.shape[1])
    kept_R &= np.isfinite(probability_RK).all(axis=1)
    probability_RK, label_R = probability_RK[kept_R], label_R[kept_R]
    count = len(label_R) // 4
    if not count:
        return None
    first = np.argsort(-probability_RK.max(axis=1), kind="stable")[:count]
    return count, int((probability_RK[first].argmax(axis=1) != label_R[first]).sum())


def _surest(called: Called) -> tuple[int, int] | None:
    probability_RK, labels = called.prediction, called.target.reshape(-1)
    if called.is_binary:
        probability_RK = probability_RK.reshape(-1, 1)
    one_each = len(probability_RK) == len(labels) == len(called.target)
    return surest(probability_RK, labels) if one_each else None


def _telling_columns(inputs: Sequence[Array], called: Called) -> tuple[tuple[int, ...], int] | None:
    """Return the columns that leak the target, in rows for which both are stored."""
    rows = min((len(given) for given in inputs if given.ndim), default=0)
    target = called.target[:rows] if called.target.ndim else called.target
    return telling_columns([given[: len(target)] for given in inputs if given.ndim], target)


@quiet
def add_to_order(order: TargetsInOrder, step: int, called: Called) -> None:
    """Add the targets of a call to the targets of its call site."""
    if not called.target.size:
        return
    counts = label_counts(called)
    if counts is not None:
        width = -(-len(counts) // BINS)
        order.add_counts(step, np.add.reduceat(counts, np.arange(0, len(counts), width)).tolist())
    elif called.target.size == len(called.target):
        values_N = called.target.reshape(-1)[:MAX_TARGETS].astype(np.float64)
        moments = float(len(values_N)), float(values_N.mean()), float(values_N.var())
        order.add_values(step, moments)
