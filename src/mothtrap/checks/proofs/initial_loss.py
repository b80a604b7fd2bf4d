"""PRE103: the loss of the first step is far from the loss from guessing."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np

from mothtrap.checks.check import Check
from mothtrap.checks.step import Array, Forward, LossSeen
from mothtrap.checks.subject import Subject
from mothtrap.core.errors import NotApplicable
from mothtrap.core.found import Found
from mothtrap.core.frozen import frozen
from mothtrap.core.thresholds import threshold


@frozen
class InitialLoss(Check):
    """The loss of the first step is far from the loss from guessing.

    What it detects:
        A loss before the first update that is far above, or far below, the loss from guessing: ln k
        for k classes, ln 2 for binary targets, and the mean square of the targets for numbers.

    Why it matters:
        If the loss is far above, the model starts out confident and wrong, and the first steps only
        undo that. If the loss is far below, the model has the answer before it has learned
        anything: the label is among its inputs, or the loss is not computed as you think.

    Fires:
        Warning when a class loss is above `high` times the loss from guessing and above it by
        `margin`, or when a squared error is above `high_number` times the mean square of the
        targets plus `high_number`. The message names the inputs as the cause if their root mean
        square is above `far`, else the last layer: its bias if the mean of the predictions is above
        `offset` times their deviation. Warning when a class loss is below `low` times
        the entropy of the batch's labels.

    Stays quiet:
        Models whose weights were loaded; class weights in binary losses; soft targets; batches
        with fewer than `least_rows` labels.

    What to do:
        - Scale the inputs to mean 0 and standard deviation 1, and the targets of a regression too.
        - Make the initial weights of the last layer smaller, and set its bias to the mean
          of the targets.
        - If the loss is too low, look for the label among the inputs.

    Example:
        nn.init.normal_(head.weight, std=1.0)

    References:
        http://karpathy.github.io/2019/04/25/recipe/
    """

    code = "PRE103"
    title = "the first loss is far from guessing"
    uses = ("step",)
    passed = "the first loss is the loss from guessing"
    costs = 1
    explains = ("wrong_initial_loss", "unscaled_targets")
    high: float = threshold(2.0, unit="times the loss from guessing", source="as in LOS408")
    margin: float = threshold(1.0, unit="nats", source="chosen by hand")
    low: float = threshold(0.7, unit="times the entropy of the labels", source="chosen by hand")
    high_number: float = threshold(3.0, unit="times the mean square", source="chosen by hand")
    far: float = threshold(10.0, unit="size of the inputs", source="chosen by hand")
    offset: float = threshold(10.0, unit="deviations of the predictions", source="chosen by hand")
    least_rows: int = threshold(8, unit="labels", source="chosen by hand")

    def run(self, subject: Subject) -> Iterable[Found]:
        """Report a first loss that is too high or too low."""
        loss = subject.step.loss
        if loss is None or not math.isfinite(loss.value):
            raise NotApplicable("no loss function call was recorded")
        if subject.step.loaded:
            raise NotApplicable("weights were loaded before the first step")
        if loss.operation in ("mse_loss", "smooth_l1_loss", "l1_loss", "huber_loss"):
            yield from self._of_numbers(subject, loss)
            return
        guessing, labels = _guessing(loss, self.least_rows)
        subject.figures["loss"], subject.figures["guessing"] = loss.value, guessing
        entropy = _mean_entropy(loss)
        if entropy is not None:
            subject.figures["entropy of the mean prediction"] = entropy
        if loss.value > max(self.high * guessing, guessing + self.margin):
            cause, fixes = self._cause(subject.step.forward)
            yield Found(
                step=0,
                severity="warning",
                fixes=fixes,
                message=f"the first loss is {loss.value:.4g}, but guessing gives {guessing:.3g}: "
                f"{cause}",
                location=loss.location,
                evidence={"value": loss.value, "guessing": guessing, "entropy": entropy},
            )
        elif loss.value < self.low * labels:
            yield Found(
                step=0,
                severity="warning",
                message=f"the first loss is {loss.value:.4g}, below {self.low:g} times "
                f"{labels:.3g}, the entropy of the labels: the model predicts them before it has "
                "learned anything",
                location=loss.location,
                evidence={"value": loss.value, "guessing": guessing, "labels": labels},
            )

    def _of_numbers(self, subject: Subject, loss: LossSeen) -> Iterable[Found]:
        target = loss.target.astype(float)
        square = float(np.mean(target**2))
        own = float(np.mean((loss.prediction.astype(float) - target) ** 2))
        if loss.prediction.shape != loss.target.shape:
            raise NotApplicable("predictions and targets differ in shape")
        subject.figures["squared error"], subject.figures["mean square of the targets"] = (
            own,
            square,
        )
        if own > self.high_number * square + self.high_number:
            cause, fixes = self._cause(subject.step.forward, loss.prediction)
            yield Found(
                step=0,
                severity="warning",
                fixes=fixes,
                message=f"the squared error of the first step is {own:.4g}, but predicting 0 gives "
                f"{square:.4g}: {cause}",
                location=loss.location,
                evidence={"value": own, "guessing": square},
            )

    def _cause(
        self, forward: Forward | None, numbers: Array | None = None
    ) -> tuple[str, tuple[str, ...]]:
        """Return whether inputs, weights, or biases are too large, in words, and the advice.

        Args:
            forward: the call to the model.
            numbers: predictions of a regression.
        """
        sizes = [] if forward is None else [_size(array) for array in forward.inputs.values()]
        largest = max(sizes, default=0.0)
        if largest > self.far:
            return f"the inputs are not scaled (root mean square {largest:.3g})", ()
        mean, deviation = (0.0, 0.0) if numbers is None else (numbers.mean(), numbers.std())
        if abs(mean) > self.offset * deviation:
            return (
                f"the predictions have a mean of {mean:.3g} and a deviation of {deviation:.3g}, so "
                "a bias of the last layer is too large"
            ), ("Set the bias of the last layer to the mean of the targets, or to 0.",)
        return "the weights of the last layer are too large", (
            "Make the initial weights of the last layer smaller.",
        )


def _size(array: Array) -> float:
    if array.dtype.kind != "f" or array.ndim < 2:
        return 0.0
    return float(np.sqrt(np.mean(array.astype(float) ** 2)))


def _guessing(loss: LossSeen, least_rows: int) -> tuple[float, float]:
    """Return the loss of a uniform prediction, and the entropy of the labels of the batch.

    Raises:
        NotApplicable: the loss has no such value.
    """
    if loss.has_classes:
        labels = loss.target[loss.target != loss.options.get("ignore_index", -100)]
        if loss.classes < 2 or labels.size < least_rows:
            raise NotApplicable(f"{labels.size} labels of {loss.classes} classes are too few")
        share = np.unique(labels, return_counts=True)[1] / labels.size
        return math.log(loss.classes), float(-(share * np.log(share)).sum())
    binary = loss.operation.startswith("binary_cross_entropy")
    hard = binary and bool(np.isin(loss.target, (0, 1)).all())
    if hard and loss.options.get("pos_weight") is None and loss.options.get("weight") is None:
        if loss.target.size < least_rows:
            raise NotApplicable(f"{loss.target.size} labels are too few")
        mean = min(max(float(loss.target.mean()), 1e-12), 1 - 1e-12)
        return math.log(2), -mean * math.log(mean) - (1 - mean) * math.log(1 - mean)
    raise NotApplicable(f"the loss from guessing is unknown for this call of {loss.operation}")


def _mean_entropy(loss: LossSeen) -> float | None:
    """Return the entropy of the mean predicted distribution; None without a distribution."""
    if not loss.has_classes or loss.prediction.ndim < 2:
        return None
    scores = np.moveaxis(loss.prediction.astype(float), 1, -1).reshape(-1, loss.classes)
    shifted = np.exp(scores - scores.max(1, keepdims=True))
    mean = np.clip((shifted / shifted.sum(1, keepdims=True)).mean(0), 1e-12, 1)
    return float(-(mean * np.log(mean)).sum())
