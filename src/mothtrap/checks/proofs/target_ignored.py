"""PRE107: the loss does not depend on the targets."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from mothtrap.checks.check import Check
from mothtrap.checks.step import Change, LossSeen
from mothtrap.checks.subject import Subject
from mothtrap.core.errors import NotApplicable, NotEnoughData
from mothtrap.core.found import Found
from mothtrap.core.frozen import frozen
from mothtrap.core.thresholds import threshold

OWN = 1 - 1e-6
"""Correlation of predictions and targets that are the same but for rounding, a factor, and a
shift."""


@frozen
class TargetIgnored(Check):
    """The loss does not depend on the targets.

    What it detects:
        A step whose loss stays exactly the same when each row gets the target of another row, and a
        loss whose targets are computed from the model's own predictions.

    Why it matters:
        A loss that ignores its targets cannot teach the model anything about them.

    Fires:
        Error when the losses of the step and of the next step stay the same to the last digit when
        the targets are shifted by one row. Each of the two trials may take `seconds`. Error, too,
        when the targets of step 0 are the likeliest classes of the predictions, or a linear
        function of them, in `least` rows or more: an untrained model does not guess so well.

    Stays quiet:
        Batches whose targets are all equal, and predictions that are `alike` for all rows: shifting
        the targets then changes nothing. Losses that are not computed by a loss function of the
        framework. Models whose weights were loaded, and targets with as many values as an input of
        the model.

    What to do:
        - Pass the targets of the batch to the loss, and not the predictions or a constant.

    Example:
        loss = F.mse_loss(output, output.detach())

    References:
        http://karpathy.github.io/2019/04/25/recipe/
    """

    code = "PRE107"
    title = "the loss ignores the targets"
    uses = ("step", "trials")
    passed = "the loss depends on the targets"
    costs = 2
    alike: float = threshold(1e-5, unit="of the predictions", source="rounding of float32")
    least: int = threshold(8, unit="rows", source="chosen by hand")
    seconds: float = threshold(15.0, unit="seconds", source="chosen by hand")

    def run(self, subject: Subject) -> Iterable[Found]:
        """Report a loss that ignores its targets."""
        loss = subject.step.loss
        if loss is None or not loss.target.ndim or len(loss.target) < 2:
            raise NotApplicable("no loss function call with one target per row was recorded")
        if loss.has_equal_targets:
            raise NotApplicable("all targets of the batch are equal")
        rows = loss.prediction.reshape(len(loss.prediction), -1)
        if np.ptp(rows, axis=0).max(initial=0.0) <= self.alike * np.abs(rows).max(initial=0.0):
            raise NotEnoughData("the model predicts the same value for each row")
        if not subject.step.loaded and self._is_own_prediction(subject, loss):
            yield Found(
                step=0,
                severity="error",
                message="the loss targets are computed from the model's own predictions",
                location=loss.location,
                evidence={"loss": loss.value},
            )
            return
        limit = min(self.seconds, subject.left_s / 2)
        usual = subject.step.train(Change(), 2, limit).losses
        moved = subject.step.train(Change(targets="permuted"), 2, limit).losses
        if len(usual) < 2 or len(moved) < 2:
            raise NotEnoughData("the trial took fewer than two steps")
        if np.array_equal(usual, moved) and np.isfinite(usual).all():
            yield Found(
                step=0,
                severity="error",
                message=f"the loss ({usual[0]:.4g}) stays the same when each row gets the target "
                "of another row",
                location=loss.location,
                evidence={"loss": float(usual[0])},
            )

    def _is_own_prediction(self, subject: Subject, loss: LossSeen) -> bool:
        """Return whether the targets of step 0 follow from the predictions alone."""
        prediction, target = loss.prediction, loss.target
        if len(target) < self.least:
            return False
        if loss.has_classes and prediction.ndim > 1:
            likeliest = prediction.argmax(1)
            return likeliest.shape == target.shape and np.array_equal(likeliest, target)
        if prediction.shape != target.shape or target.dtype.kind != "f":
            return False
        forward = subject.step.forward
        inputs = () if forward is None else forward.inputs.values()
        if any(one.size == target.size for one in inputs):
            return False  # an autoencoder, or a line through points
        one, other = prediction.ravel().astype(float), target.ravel().astype(float)
        if not one.std() or not other.std():
            return False
        return bool(abs(np.corrcoef(one, other)[0, 1]) > OWN)
