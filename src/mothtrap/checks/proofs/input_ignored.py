"""PRE105: training on constant inputs gives the same loss as training on the real inputs."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from mothtrap.checks.check import Check
from mothtrap.checks.step import Array, Change, Forward, LossSeen, Trial
from mothtrap.checks.subject import Subject
from mothtrap.core.errors import NotApplicable, NotEnoughData
from mothtrap.core.found import Found
from mothtrap.core.frozen import frozen
from mothtrap.core.thresholds import threshold

BLIND = Change(inputs="constant", regularized=False)
"""Without dropout: its masks are the same in each step, and would distinguish the rows."""


@frozen
class InputIgnored(Check):
    """Training on constant inputs gives the same loss as training on the real inputs.

    What it detects:
        A script that learns just as much when all rows of a batch have the same input.

    Why it matters:
        The model predicts the same for every sample: it has learned how often each target occurs,
        and nothing from the inputs.

    Fires:
        Error when all rows of the model's input are equal. Error when the model, trained on one
        batch for `steps` steps or `seconds`, ends at the same loss with constant inputs, within
        `alike` of the fall and `apart` of the loss, and the loss fell by `least_fall`. If the
        losses of the two trials differ in any step, both trials are repeated with `longer` times
        the steps, and must agree again. In the last quarter the loss must then fall by less than
        `flat`, and the difference between the two losses must grow by less than `grows`. A loss
        that falls by less decides only if it is the same in every step, and all rows have exactly
        the same output.

    Stays quiet:
        Losses that hardly fall in either trial, still fall at the end, end lower without inputs,
        are negative, or are not computed by a loss function; batches whose targets are all equal;
        models that draw random numbers other than for dropout, because these distinguish the rows.

    What to do:
        - Print the input of the first layer: is it constant, or all zeros?
        - Check for a layer whose output does not depend on its input: dead ReLUs, a product with 0,
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
    apart: float = threshold(0.25, unit="of the larger last loss", source="chosen by hand")
    seconds: float = threshold(20.0, unit="seconds", source="chosen by hand")
    longer: int = threshold(4, unit="times the steps", source="chosen by hand")
    flat: float = threshold(0.02, unit="of the fall", source="chosen by hand")
    grows: float = threshold(1e-3, unit="of the fall", source="chosen by hand")

    def run(self, subject: Subject) -> Iterable[Found]:
        """Report a model that learns as much without its input."""
        loss = subject.step.loss
        if loss is None:
            raise NotApplicable("no loss function call was recorded")
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
        end, without, fall = self._compared(subject, loss)
        subject.figures["loss with inputs"], subject.figures["without"] = end, without
        if self._are_alike(end, without, fall):
            yield Found(
                step=0,
                severity="error",
                message=f"trained on one batch, the loss falls to {end:.4g}, and to "
                f"{without:.4g} when all rows have the same input",
                location=loss.location,
                evidence={"loss": end, "loss_without_input": without},
            )
        elif end > without:
            raise NotEnoughData(
                f"on one batch the loss falls to {end:.4g} with inputs, and even to {without:.4g} "
                "without"
            )

    def _are_alike(self, end: float, without: float, fall: float) -> bool:
        """Return whether a model without inputs ends at the same loss.

        A regression that starts far from its targets falls by far more than inputs can explain, so
        the losses at the end are compared with each other, too.
        """
        most = min(self.alike * fall, self.apart * max(end, without))
        return abs(end - without) <= most

    def _compared(self, subject: Subject, loss: LossSeen) -> tuple[float, float, float]:
        """Return the last loss with inputs, the last loss without, and the fall with inputs.

        A model that learns slowly first learns how often each answer occurs, like a model without
        inputs. Only longer trials distinguish them, unless both losses are the same in every step.

        Raises:
            NotEnoughData: the loss hardly falls, or still falls at the end.
            NotApplicable: random numbers distinguish the rows of the batch.
        """
        real, blind = self._trials(subject, self.steps)
        end, without, fall = _level(real), _level(blind), _fall(real)
        forward = subject.step.forward
        if fall > 0 and _is_same_course(real, blind) and _rows_come_out_alike(forward):
            return end, without, fall
        if fall <= self.least_fall * abs(real[0]):
            raise NotEnoughData(f"the loss hardly fell on one batch, from {real[0]:.4g}")
        if without < 0.9 * _entropy(loss, 0 if forward is None else forward.rows):
            raise NotApplicable("the model's random numbers distinguish the rows of a batch")
        if not self._are_alike(end, without, fall):
            return end, without, fall
        if forward is not None and _draws(forward):
            raise NotApplicable("the model's random numbers may distinguish the rows of a batch")
        if _is_same_course(real, blind):
            return end, without, fall
        real, blind = self._trials(subject, self.longer * self.steps)
        end, without, fall = _level(real), _level(blind), _fall(real)
        if self._are_alike(end, without, fall) and (
            len(real) < 2 * self.steps or self._still_learns(real, blind, fall)
        ):
            raise NotEnoughData("the loss still falls more with inputs than without")
        return end, without, fall

    def _still_learns(self, real: Array, blind: Array, fall: float) -> bool:
        """Return whether the loss with inputs still falls, or the distance still grows."""
        made = min(len(real), len(blind))
        (third, last), (other, final) = _last_quarters(real[:made]), _last_quarters(blind[:made])
        gains = (final - last) - (other - third)
        return third - last > self.flat * fall or gains > self.grows * fall

    def _trials(self, subject: Subject, steps: int) -> tuple[Array, Array]:
        """Return the losses with inputs and without."""
        limit = min(self.seconds, subject.left_s / 3)
        real = subject.step.train(Change(regularized=False), steps, limit)
        return _judged(real), _judged(subject.step.train(BLIND, steps, limit))


def _all_alike(forward: Forward) -> bool:
    """Return whether all rows of all inputs are equal."""
    arrays = [one for one in forward.inputs.values() if one.ndim > 1 and len(one) == forward.rows]
    return forward.rows > 1 and bool(arrays) and all((one == one[:1]).all() for one in arrays)


def _rows_come_out_alike(forward: Forward | None) -> bool:
    """Return whether all rows of a batch have exactly the same output."""
    if forward is None or forward.rows < 2:
        return False
    arrays = [one for one in forward.outputs() if one.ndim and len(one) == forward.rows]
    return bool(arrays) and all((one == one[:1]).all() for one in arrays)


def _entropy(loss: LossSeen, rows: int) -> float:
    """Return the lowest loss without inputs: the entropy of the labels at each place of a sequence.

    Args:
        loss: 0 is returned for a loss without classes.
        rows: rows of the batch; the targets of sequences may be joined, row after row.
    """
    if not loss.has_classes:
        return 0.0
    target = loss.target
    joined = target.ndim == 1 and rows and len(target) % rows == 0
    table = target.reshape(rows if joined else len(target), -1)
    ignored = loss.options.get("ignore_index", -100)
    known = [column[column != ignored] for column in table.T]
    sizes = [len(labels) for labels in known]
    if not sum(sizes):
        return 0.0
    return float(np.average([_entropy_of(labels) for labels in known], weights=sizes))


def _entropy_of(labels: Array) -> float:
    counts = np.unique(labels, return_counts=True)[1]
    share = counts / counts.sum()
    return float(-(share * np.log(share)).sum())


def _draws(forward: Forward) -> bool:
    """Return whether the outputs of the model depend on random numbers in evaluation mode."""
    usual, other = forward.outputs(), forward.outputs(seed=1)
    return any(not np.array_equal(a, b) for a, b in zip(usual, other, strict=True))


def _judged(trial: Trial) -> Array:
    """Return the losses of a trial.

    Raises:
        NotEnoughData: the trial is too short, or a loss is not finite.
        NotApplicable: a loss is negative.
    """
    losses = trial.losses
    if len(losses) < 20:
        why = f": {trial.ended}" if trial.ended else ""
        raise NotEnoughData(f"needs 20 steps, but the trial took {len(losses)}{why}")
    if np.nanmin(losses) < 0:
        raise NotApplicable("the loss is negative, so a lower loss is not always better")
    if not np.isfinite(losses).all():
        raise NotEnoughData("a loss of the trial is not finite")
    return losses


def _level(losses: Array) -> float:
    """Return the median of the last tenth."""
    return float(np.median(losses[-max(3, len(losses) // 10) :]))


def _fall(losses: Array) -> float:
    return float(losses[0]) - _level(losses)


def _is_same_course(one: Array, other: Array) -> bool:
    """Return whether two trials have the same losses in every step."""
    made = min(len(one), len(other))
    return bool(np.allclose(one[:made], other[:made], rtol=1e-4, atol=0.0))


def _last_quarters(losses: Array) -> tuple[float, float]:
    """Return the medians of the third and of the last quarter."""
    *_, third, last = (float(np.median(part)) for part in np.array_split(losses, 4))
    return third, last
