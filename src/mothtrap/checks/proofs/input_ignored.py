"""PRE105: training on constant inputs gives the same loss as training on the real ones."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from mothtrap.checks.check import Check
from mothtrap.checks.step import Array, Change, Forward, LossSeen
from mothtrap.checks.subject import Subject
from mothtrap.core.errors import NotApplicable, NotEnoughData
from mothtrap.core.found import Found
from mothtrap.core.thresholds import threshold

BLIND = Change(inputs="constant", regularized=False)
"""Without dropout: its masks are the same in each step, and would tell rows apart."""


@dataclass(frozen=True)
class InputIgnored(Check):
    """Training on constant inputs gives the same loss as training on the real ones.

    What it detects:
        A script that learns as much when all rows of a batch have the same input.

    Why it matters:
        The model predicts the same for every sample: it has learned how often each answer occurs,
        and nothing about the inputs.

    Fires:
        Error when all rows of the model's input are equal. Error when the model, trained on one
        batch for `steps` steps or `seconds`, ends at the same loss with constant inputs, within
        `alike` of the fall, and the loss fell by `least_fall`.

    Stays quiet:
        Losses that hardly fall in either trial, are negative, or are not computed by a loss
        function; batches whose targets are all equal; models that draw random numbers, other than
        by dropout, which tell rows apart.

    What to do:
        - Print the input of the first layer: is it constant, or all zeros?
        - Look for a layer whose output does not depend on its input: dead ReLUs, a product with 0,
          a wrong index, or an input that is overwritten.

    Example:
        x = torch.zeros_like(x)

    References:
        http://karpathy.github.io/2019/04/25/recipe/
    """

    code = "PRE105"
    title = "the model ignores its input"
    uses = ("step", "trials")
    passed = "the model uses its input"
    costs = 3
    steps: int = threshold(100, unit="steps", source="chosen by hand")
    least_fall: float = threshold(0.1, unit="of the first loss", source="chosen by hand")
    alike: float = threshold(0.05, unit="of the fall", source="chosen by hand")
    seconds: float = threshold(20.0, unit="seconds", source="chosen by hand")

    def run(self, subject: Subject) -> Iterable[Found]:
        """Report a model that learns as much without its input."""
        loss = subject.step.loss
        if loss is None:
            raise NotApplicable("no call of a loss function was seen")
        if loss.has_equal_targets:
            raise NotApplicable("all targets of the batch are equal")
        forward = subject.step.forward
        if forward is not None and _all_alike(forward):
            yield Found(
                step=0,
                severity="error",
                message=f"every row of the batch gives {forward.model} the same input",
                location=forward.location,
            )
            return
        limit = min(self.seconds, subject.left_s / 3)
        real = _level(subject.step.train(Change(regularized=False), self.steps, limit).losses)
        blind = _level(subject.step.train(BLIND, self.steps, limit).losses)
        fall = real[0] - real[1]
        if fall <= self.least_fall * abs(real[0]):
            raise NotEnoughData(f"the loss hardly fell on one batch, from {real[0]:.4g}")
        if blind[1] < 0.9 * _entropy(loss):
            raise NotApplicable("random numbers of the model tell the rows of a batch apart")
        subject.figures["loss with inputs"] = real[1]
        subject.figures["without"] = blind[1]
        if abs(real[1] - blind[1]) <= self.alike * fall:
            yield Found(
                step=0,
                severity="error",
                message=f"trained on one batch, the loss falls to {real[1]:.4g}, and to "
                f"{blind[1]:.4g} when all rows have the same input",
                location=loss.location,
                evidence={"loss": real[1], "loss_without_input": blind[1]},
            )


def _all_alike(forward: Forward) -> bool:
    """Return whether all rows of all inputs are equal."""
    arrays = [one for one in forward.inputs.values() if one.ndim > 1 and len(one) == forward.rows]
    return forward.rows > 1 and bool(arrays) and all((one == one[:1]).all() for one in arrays)


def _entropy(loss: LossSeen) -> float:
    """Return the entropy of the labels: no model has less without inputs. 0 without classes."""
    if not loss.has_classes:
        return 0.0
    counts = np.unique(loss.target, return_counts=True)[1]
    share = counts / counts.sum()
    return float(-(share * np.log(share)).sum())


def _level(losses: Array) -> tuple[float, float]:
    """Return the first loss and the median of the last tenth.

    Raises:
        NotEnoughData: the trial is too short, or a loss is not finite.
        NotApplicable: a loss is negative.
    """
    if len(losses) < 20:
        raise NotEnoughData(f"the trial made {len(losses)} steps; 20 are needed")
    if np.nanmin(losses) < 0:
        raise NotApplicable("the loss is negative: a lower one need not be a better one")
    if not np.isfinite(losses).all():
        raise NotEnoughData("a loss of the trial is not finite")
    return float(losses[0]), float(np.median(losses[-max(3, len(losses) // 10) :]))
