"""PRE203: a resumed training run differs from an uninterrupted run."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from mothtrap.checks.check import Check
from mothtrap.checks.resumed import Resumed, StepState
from mothtrap.checks.subject import Subject
from mothtrap.core.errors import NotApplicable, NotEnoughData
from mothtrap.core.found import Found
from mothtrap.core.frozen import frozen
from mothtrap.core.thresholds import threshold


@frozen
class ResumeDiffers(Check):
    """A resumed training run differs from an uninterrupted run.

    What it detects:
        Weights, tensors of the optimizer such as Adam's moments, or learning rates that differ
        after resuming from their values when the checkpoint was written. The check runs the script
        until it has written a checkpoint, then for a few steps more. It runs the command that
        resumes the training from this checkpoint, and compares the first steps.

    Why it matters:
        A long run is interrupted sooner or later. If a part of its state is then lost, the loss
        jumps, the learning rate starts over, and the result cannot be reproduced.

    Fires:
        Error when weights differ. Warning when tensors of the optimizer or learning rates differ by
        more than `least`. A note when only the losses differ by more than `least_loss`, because of
        the order of the data or random numbers.

    Stays quiet:
        Without `--resume-command`; scripts that do not write a checkpoint in time.

    What to do:
        - PyTorch: Save and load the `state_dict` of model, optimizer, scheduler, and scaler, and
          the number of the epoch.
        - Keras: Save the state of the optimizer and the number of the epoch, too:
          `keras.callbacks.BackupAndRestore`.
        - Seed the order of the data by the epoch.

    Example:
        torch.save({"model": model.state_dict()}, path)   # without optimizer and scheduler

    References:
        https://docs.pytorch.org/tutorials/recipes/recipes/saving_and_loading_a_general_checkpoint.html
    """

    code = "PRE203"
    title = "a resumed run differs"
    passed = "the resumed run continues as before"
    costs = 6
    least: float = threshold(1e-6, unit="of the learning rate", source="rounding of float32")
    least_loss: float = threshold(1e-4, unit="of the loss", source="rounding of float32")

    def run(self, subject: Subject) -> Iterable[Found]:
        """Compare the steps after a checkpoint with the steps after resuming from it."""
        if subject.resume is None:
            raise NotApplicable("no --resume-command was given")
        seen = subject.resume()
        before, after = seen.before, seen.after
        subject.figures["steps compared"] = min(len(before.losses), len(after.losses))
        lost = _differing(before.weights, after.weights)
        if lost:
            yield self._found("error", f"{lost} of {len(before.weights)} weights", seen)
            return
        changed = [text for text in (_moments(before, after), self._rates(before, after)) if text]
        if changed:
            yield self._found("warning", " and ".join(changed), seen)
        elif not self._has_same_losses(before, after):
            yield self._found("info", "the loss, so the data or the random numbers differ", seen)

    def _found(self, severity: str, what: str, seen: Resumed) -> Found:
        losses = ""
        if seen.before.losses and seen.after.losses:
            one, other = seen.before.losses[0], seen.after.losses[0]
            losses = (
                f"; the loss of the next step is {one:.4g} without resuming and {other:.4g} after "
                "it"
            )
        return Found(
            step=0,
            severity=severity,  # type: ignore[arg-type]  # one of three literals
            message=f"resumed from {seen.before.checkpoint}, training differs in {what}" + losses,
            evidence={"before": list(seen.before.losses), "after": list(seen.after.losses)},
        )

    def _rates(self, before: StepState, after: StepState) -> str:
        """Return the learning rates that differ, in words."""
        for step, (one, other) in enumerate(zip(before.rates, after.rates, strict=False)):
            if len(one) != len(other) or not np.allclose(one, other, rtol=self.least, atol=0.0):
                when = "the first step" if not step else f"step {step + 1}"
                return f"the learning rate ({max(one):.3g} before and {max(other):.3g} in {when})"
        return ""

    def _has_same_losses(self, before: StepState, after: StepState) -> bool:
        count = min(len(before.losses), len(after.losses))
        if not count:
            raise NotEnoughData("no loss was recorded after the checkpoint")
        pair = before.losses[:count], after.losses[:count]
        return bool(np.allclose(*pair, rtol=self.least_loss, atol=0.0, equal_nan=True))


def _moments(before: StepState, after: StepState) -> str:
    """Return the tensors of the optimizer that differ, in words."""
    differing = [
        name
        for name, digests in before.moments.items()
        if _differing(digests, after.moments.get(name, ()))
    ]
    return f"{', '.join(differing)} of the optimizer" if differing else ""


def _differing(one: Sequence[str], other: Sequence[str]) -> int:
    """Return the number of digests that differ; missing digests count as different."""
    pairs = sum(a != b for a, b in zip(one, other, strict=False))
    return pairs + abs(len(one) - len(other))
