"""LOS411: a metric stays near 0, or gets worse, while the loss falls."""

from __future__ import annotations

import math

import numpy as np

from mothtrap.core.errors import NotApplicable, NotEnoughData
from mothtrap.core.facts.epochs import EpochMetrics
from mothtrap.core.facts.losses import LossCall
from mothtrap.core.findings import Finding, Severity
from mothtrap.core.frozen import frozen
from mothtrap.core.needs import Need
from mothtrap.core.rule import Rule
from mothtrap.core.steps import Mode
from mothtrap.core.thresholds import threshold
from mothtrap.core.window import Window
from mothtrap.rules._effects import CONFUSED
from mothtrap.rules._epochs import (
    OVERLAPS,
    QUALITIES,
    SHARES_OF_RIGHT,
    Epochs,
    trainings,
)
from mothtrap.rules._evaluations import trend

CHECKS = ("Check the sign", "Check which pairs")
"""Beginnings of the fixes: for a loss that is the metric itself, and for other losses."""
METRIC = "Check the metric"
"""Beginning of the fixes for a metric that is computed wrongly."""
SAME = 0.05
"""Relative difference up to which a loss equals a metric; chosen by hand."""


@frozen
class MetricContradictsLoss(Rule):
    """A metric stays near 0, or keeps getting worse, while the loss falls.

    What it detects:
        An accuracy that does not change, at or near 0. Or an accuracy, AUC, dice or IoU of the
        training data, or of the evaluation data if there is no other, that falls epoch after epoch.
        At the same time, the loss of the same data falls. Or an accuracy that is lower than the
        loss allows.

    Why it matters:
        Either the metric or the loss is wrong. An accuracy that compares classes with
        probabilities, or numbers with numbers, finds no equal pair, so it does not measure the
        model. A loss with the wrong sign, or with swapped classes, trains the opposite of the goal.

    Fires:
        Warning when an accuracy below `low` does not change in the first epochs, at least
        `flat_epochs`, while the loss fell by `fall`. Also when, in at least `epochs` epochs on the
        training data, the rank correlations of metric and epoch and of loss and epoch are at most
        -`rank_correlation`, the metric has lost `worse` of its value and is below `guessed`, and it
        did not improve on the validation data. Also when an evaluation accuracy is at least
        `margin` below the lowest accuracy that its cross-entropy allows, in the last `bounded`
        evaluations: each wrong row adds ln 2 or more to the loss.

    Stays quiet:
        Constant metrics above `low` (an accuracy equal to the share of the largest class), unless
        the loss is too low for them. Losses that are not the plain cross-entropy of rows. Recall
        and precision. A dice or IoU with another loss. Metrics that fall in training with weights
        for rows or classes. Sums of several losses.

    What to do:
        - PyTorch: Check the metric: compare labels with the class of each row,
          `logits.argmax(axis=-1)`; for a single output, with `logits > 0`.
        - Keras: Check the metric: `Accuracy` compares classes with classes. For probabilities use
          `"accuracy"`, `BinaryAccuracy` or `SparseCategoricalAccuracy`.
        - Check the metric: an accuracy is meaningless for a regression; use `"mae"`.
        - Check the sign of the loss: if a greater score is better, minimize `1 - score`.
        - Check which pairs the loss labels 1: similar or dissimilar pairs.

    Example:
        return dice_coef(y_true, y_pred)          # as a loss
        return 1.0 - dice_coef(y_true, y_pred)

    References:
        https://keras.io/api/metrics/accuracy_metrics/#accuracy-class
        Milletari et al. 2016, V-Net, section 3, https://arxiv.org/abs/1606.04797
    """

    code = "LOS411"
    title = "metric contradicts the loss"
    needs = (
        Need(facts=(EpochMetrics,)),
        Need(facts=(LossCall,), optional=True),
    )
    explains = ("class_imbalance", *CONFUSED)
    passes = True

    flat_epochs: int = threshold(4, unit="epochs", source="chosen by hand")
    low: float = threshold(
        0.05,
        unit="of the rows",
        source="chosen by hand: with up to 20 classes, guessing is at least as good",
    )
    fall: float = threshold(1 / 3, unit="of the loss", source="chosen by hand")
    epochs: int = threshold(5, unit="epochs", source="chosen by hand")
    rank_correlation: float = threshold(
        0.8, unit="rank correlation", source="chosen by hand: nearly every epoch"
    )
    worse: float = threshold(0.2, unit="of the first value", source="chosen by hand")
    margin: float = threshold(0.15, unit="of the rows", source="chosen by hand")
    bounded: int = threshold(3, unit="evaluations", source="chosen by hand")
    guessed: float = threshold(
        0.5, unit="score", source="with two classes, always predicting the larger class scores more"
    )

    def check(self, window: Window) -> list[Finding]:
        """Check the metrics of every training run."""
        every = trainings(window)
        if not every:
            raise NotEnoughData("no epoch with reported metrics has ended")
        single = [one for one in every if one.seen[-1].loss and not _is_sum(one)]
        if not single:
            raise NotApplicable("the loss is a sum of several losses")
        if not any(map(_metrics, single)):
            raise NotApplicable("training computes no accuracy or similar metric")
        if max(len(one.seen) for one in single) < min(self.flat_epochs, self.epochs):
            raise NotEnoughData(
                f"fewer than {min(self.flat_epochs, self.epochs)} epochs were recorded"
            )
        found = [
            finding
            for one in single
            for metric in _metrics(one)
            if (
                finding := self._flat(window, one, metric)
                or self._too_low(window, one, metric)
                or self._worse(window, one, metric)
            )
        ]
        return sorted(found, key=lambda finding: finding.step)[:1]

    def _flat(self, window: Window, one: Epochs, metric: str) -> Finding | None:
        if not SHARES_OF_RIGHT.fullmatch(metric):
            return None
        held_out = bool(np.isfinite(one.values(metric, held_out=True)).any())
        value_E = one.values(metric, held_out=held_out)
        loss_E = one.values(one.seen[-1].loss or "", held_out=held_out)
        known_E = np.isfinite(value_E) & np.isfinite(loss_E)
        train_E = one.values(metric, held_out=False)[known_E]
        value_E, loss_E = value_E[known_E], loss_E[known_E]
        if not len(value_E) or value_E[-1] >= self.guessed:
            return None
        # A sigmoid that is rounded to 1 is right by chance, once the model is sure of itself.
        flat = int(np.argmin([*(value_E == value_E[0]), False]))
        if flat < self.flat_epochs or max(value_E[0], np.max(train_E[:flat])) >= self.low:
            return None
        least = float(np.min(loss_E[:flat]))
        if not 0 <= least <= (1 - self.fall) * loss_E[0]:
            return None
        name = f"the evaluation {metric}" if held_out else metric
        during = f"all {flat}" if flat == len(value_E) else f"the first {flat}"
        rounds = "evaluations" if held_out else "epochs"
        return self._finding(
            window,
            one,
            message=(
                f"{name} is {value_E[0]:.3g} in {during} {rounds}, while the loss fell from "
                f"{loss_E[0]:.3g} to {least:.3g}: no prediction counts as correct"
            ),
            fixes=self._advice(window, METRIC),
            evidence={"metric": metric, "value": float(value_E[0]), "loss": least},
        )

    def _too_low(self, window: Window, one: Epochs, metric: str) -> Finding | None:
        """Check whether an accuracy is lower than the cross-entropy of its rows allows."""
        value_E = one.values(metric, held_out=True)[-self.bounded :]
        loss_E = one.values(one.seen[-1].loss or "", held_out=True)[-self.bounded :]
        # A share of sequences that are right may be low, but it does not stand still.
        is_still = len(set(value_E.tolist())) == 1 and bool(value_E[0] > 0)
        if not SHARES_OF_RIGHT.fullmatch(metric) or not _is_of_rows(window, flat=is_still):
            return None
        least_E = 1 - loss_E / math.log(2)
        if one.seen[-1].weighted or len(value_E) < self.bounded:
            return None
        if not (value_E < least_E - self.margin).all():
            return None
        return self._finding(
            window,
            one,
            message=(
                f"the evaluation {metric} is {value_E[-1]:.3g}, but a loss of {loss_E[-1]:.3g} "
                f"means that at least {least_E[-1]:.0%} of the rows are right"
            ),
            fixes=self._advice(window, METRIC),
            evidence={
                "metric": metric,
                "value": float(value_E[-1]),
                "loss": float(loss_E[-1]),
                "limit": float(least_E[-1]),
            },
        )

    def _worse(self, window: Window, one: Epochs, metric: str) -> Finding | None:
        held_out = metric not in one.seen[-1].values
        value_E = one.values(metric, held_out=held_out)
        loss_E = one.values(one.seen[-1].loss or "", held_out=held_out)
        known_E = np.isfinite(value_E) & np.isfinite(loss_E)
        value_E, loss_E = value_E[known_E], loss_E[known_E]
        if len(value_E) < self.epochs or one.seen[-1].weighted:
            return None
        if max(trend(value_E), trend(loss_E)) > -self.rank_correlation:
            return None
        if value_E[-1] > min((1 - self.worse) * value_E[0], self.guessed):
            return None
        name = f"the evaluation {metric}" if held_out else metric
        others = (METRIC, *CHECKS[::-1]) if held_out else (*CHECKS[::-1], METRIC)
        is_score = np.allclose(value_E, loss_E, rtol=SAME)
        if OVERLAPS.search(metric.lower()) and not is_score:
            return None  # with a cross-entropy, a model loses small areas first
        other_E = one.values(metric, held_out=True)
        other_E = other_E[np.isfinite(other_E)]
        if not held_out and len(other_E) and other_E[-1] > other_E[0]:
            return None
        return self._finding(
            window,
            one,
            message=(
                f"{name} fell from {value_E[0]:.3g} to {value_E[-1]:.3g} while the loss fell "
                f"from {loss_E[0]:.3g} to {loss_E[-1]:.3g}: the loss rewards the opposite of the "
                "metric"
            ),
            fixes=self._advice(window, *((*CHECKS, METRIC) if is_score else others)),
            evidence={
                "metric": metric,
                "value": float(value_E[-1]),
                "loss": float(loss_E[-1]),
                "limit": -self.rank_correlation,
            },
        )

    def _advice(self, window: Window, *beginnings: str) -> tuple[str, ...]:
        every = self.fixes(window)
        return tuple(fix for begin in beginnings for fix in every if fix.startswith(begin))

    def _finding(
        self,
        window: Window,
        one: Epochs,
        *,
        message: str,
        fixes: tuple[str, ...],
        evidence: dict[str, str | float],
    ) -> Finding:
        step_E = one.steps
        return self.finding(
            window,
            severity=Severity.WARNING,
            step=int(step_E[0]),
            last_step=int(step_E[-1]),
            count=len(step_E),
            message=message,
            fixes=fixes,
            evidence={**evidence, "epochs": len(step_E), "fit": one.fit},
            location=one.seen[-1].location,
        )


def _is_sum(one: Epochs) -> bool:
    """Return whether a loss is the sum of the losses of several outputs."""
    return any(name.endswith("_loss") for name in one.seen[-1].values)


def _is_of_rows(window: Window, *, flat: bool) -> bool:
    """Return whether all losses are plain cross-entropies with one class for each row.

    Args:
        window: has the loss calls.
        flat: also accept outputs that were reshaped, perhaps from positions to rows.
    """
    calls = [one for one in window.seen(LossCall) if one.mode is Mode.TRAIN]
    return bool(calls) and all(_is_class_of_row(one, flat=flat) for one in calls)


def _is_class_of_row(call: LossCall, *, flat: bool) -> bool:
    targets = call.targets
    if targets is not None and (targets.weighted or (targets.by_position and not flat)):
        return False
    if call.reduction != "mean" or "focal" in (call.function or ""):
        return False  # rows may count for less than ln 2
    shape = call.prediction_shape or ()
    if call.operation in ("cross_entropy", "nll"):
        return len(shape) == 2
    is_binary = call.operation.startswith("binary_cross_entropy")
    return is_binary and (len(shape) == 1 or (len(shape) == 2 and shape[1] == 1))


def _metrics(one: Epochs) -> list[str]:
    """Return the metrics of a training run that should improve when the loss falls."""
    names = {**one.seen[-1].values, **one.seen[-1].held_out}
    return [name for name in names if one.is_rising(name) and QUALITIES.search(name.lower())]
