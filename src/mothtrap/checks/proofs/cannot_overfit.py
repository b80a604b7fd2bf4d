"""PRE104: the script cannot fit one batch."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import Literal

import numpy as np

from mothtrap.checks.check import Check
from mothtrap.checks.proofs._floors import compares_rows, ends_at_zero, known_floor, least_loss
from mothtrap.checks.step import Array, Change, LossSeen, Step, Trial
from mothtrap.checks.subject import Subject
from mothtrap.core.errors import NotApplicable, NotEnoughData
from mothtrap.core.found import Found
from mothtrap.core.frozen import frozen
from mothtrap.core.thresholds import threshold

Severity = Literal["error", "warning", "info"]

REMEDIES = (
    (
        Change(scheduled=False),
        "a constant learning rate",
        "Let the schedule decay more slowly: its length is counted in calls to `scheduler.step()`.",
    ),
    (Change(rate=10.0), "ten times the learning rate", "Raise the learning rate."),
    (Change(rate=0.1), "a tenth of the learning rate", "Lower the learning rate."),
    (
        Change(regularized=False),
        "no weight decay and no dropout",
        "Lower the weight decay, or the dropout.",
    ),
    (
        Change(adam=True),
        "Adam with a learning rate of 0.001",
        "Check the options of the optimizer: with Adam and its default rate the model learns.",
    ),
)
"""Changes, their names, and the advice if the loss falls with them."""


@frozen
class CannotOverfit(Check):
    """The script cannot fit one batch.

    What it detects:
        A loss that stops falling far above 0, although every step sees the same batch with the
        same random states. Optimizer, clipping, and schedule are the script's own.

    Why it matters:
        A model that cannot memorize a few samples cannot learn many. This test finds most mistakes
        in a model, a loss, or an optimizer within seconds.

    Fires:
        Error when the loss of one batch falls by less than `flat` in the last quarter of a trial of
        `steps` steps or `seconds`, above `remaining` and its lower bound, and the same happens with
        two rows of the batch. `remaining` applies to a class or regression loss that is the only
        term. Other losses may end above 0: for them the limit is `remaining_unknown`, and the
        finding is a warning unless the loss is `unchanged`. Info when two rows can be fitted, but
        the batch cannot: the model is too small. Info when `all_right` of the predictions are right
        at the end: the model limits its own scores. Further trials change the learning rate, the
        regularization, or the optimizer. If a change `helps`, the finding is a warning that names
        the change, because model and loss can learn. Also a warning if the loss is not computed by
        a loss function of the framework, or becomes NaN or infinite in the trial.

    Stays quiet:
        Losses that still fall, however slowly, as in a warm-up, unless they are `unchanged`. The
        check cannot decide about them, nor about losses that fell by less than `fallen`. Negative
        losses. Steps with several optimizers in turn. Trials of fewer than `least_steps` steps.
        Batches in which equal rows have different targets. Data that reach the loss neither through
        a loader nor through a model, because two rows then cannot replace the batch. If predictions
        are equal from the start, such as the predictions of a bigram model for one token, the loss
        of the best constant guess is the lower bound.

    What to do:
        - Check the last layer against the loss: cross-entropy expects logits, and binary
          cross-entropy with logits expects no sigmoid.
        - Check that predictions and targets have the same shape, and that the targets belong to the
          inputs.
        - If the message names a change that helped, apply it.

    Example:
        loss = F.cross_entropy(model(x).softmax(1), y)

    References:
        http://karpathy.github.io/2019/04/25/recipe/
    """

    code = "PRE104"
    title = "one batch cannot be learned"
    uses = ("step", "trials")
    passed = "the loss falls when one batch is repeated"
    costs = 3
    explains = ("loss_not_decreasing", "stuck_at_chance", "input_ignored")
    steps: int = threshold(
        200,
        unit="steps",
        source="measured: the losses of 29 healthy programs fell by 60 % or more within 150 steps",
    )
    seconds: float = threshold(30.0, unit="seconds", source="chosen by hand")
    least_steps: int = threshold(40, unit="steps", source="chosen by hand")
    remaining: float = threshold(0.1, unit="of the first loss", source="chosen by hand")
    remaining_unknown: float = threshold(
        0.5,
        unit="of the first loss",
        source="measured: healthy autoencoders ended at 0.3, a VAE at 0.41",
    )
    flat: float = threshold(0.02, unit="of the first loss", source="chosen by hand")
    all_right: float = threshold(0.999, unit="of the labels", source="chosen by hand")
    fallen: float = threshold(0.1, unit="of the first loss", source="chosen by hand")
    unchanged: float = threshold(1e-3, unit="of the first loss", source="chosen by hand")
    helps: float = threshold(0.1, unit="of the first loss", source="chosen by hand")

    def run(self, subject: Subject) -> Iterable[Found]:
        """Report a batch that cannot be fitted."""
        step = subject.step
        if step.loss is not None and compares_rows(step.loss):
            raise NotApplicable(
                "the loss compares the rows of a batch, so its lower bound is unknown"
            )
        limit = min(self.seconds, subject.left_s / 2)
        trial = self._trial(step, Change(), self.steps, limit)
        losses = trial.losses
        subject.figures["loss before"], level = float(losses[0]), _level(losses)
        subject.figures[f"after {len(losses)} steps"] = level
        if not np.isfinite(losses).all():
            yield _not_finite(losses, step.loss)
            return
        if not self._is_flat(losses, step.loss):
            self._has_fallen(losses, step.loss)
            return
        if _contradicts(step):
            raise NotEnoughData("equal rows of the batch have different targets")
        pair = _pair(step)
        if pair is None:
            raise NotEnoughData(f"the loss stays at {level:.4g}; all targets are equal")
        limit = min(limit, subject.left_s / 2)
        two = self._trial(step, Change(rows=pair), self.steps, limit).losses
        if not np.isfinite(two).all():
            raise NotEnoughData("the loss of two rows is not finite")
        if np.array_equal(two[:3], losses[:3]):
            raise NotEnoughData(
                f"the loss stays at {level:.4g}; the batch cannot be replaced by two of its rows"
            )
        yield self._found(subject, step, trial, two)

    def _has_fallen(self, losses: Array, loss: LossSeen | None) -> None:
        """Raise if the loss has hardly fallen in the time of the trial.

        Raises:
            NotEnoughData: It still falls, but slowly.
        """
        level = _level(losses)
        least = least_loss(loss) if loss is not None else 0.0
        if level > (1 - self.fallen) * float(losses[0]) and level > 1.1 * least + 1e-3:
            raise NotEnoughData(
                f"the loss falls too slowly to decide, from {losses[0]:.4g} to {level:.4g} in "
                f"{len(losses)} steps"
            )

    def _found(self, subject: Subject, step: Step, trial: Trial, two: Array) -> Found:
        """Report the batch, and the cause.

        Raises:
            NotEnoughData: The loss of two rows still falls, but has hardly fallen.
        """
        losses, loss = trial.losses, step.loss
        level, still_falls = _level(losses), not self._is_flat(two, loss)
        fits = still_falls and _level(two) <= (1 - self.fallen) * float(two[0])
        helped, advice = ("", "") if fits else next(self._remedies(subject, step, level), ("", ""))
        if still_falls and not fits and not helped:
            raise NotEnoughData(
                f"the loss of two rows falls too slowly to decide, from {two[0]:.4g} to "
                f"{_level(two):.4g} in {len(two)} steps"
            )
        severity: Severity
        if fits:
            severity = "info"
            why = f"for two rows it falls to {_level(two):.4g}, so the model is too small"
        elif helped:
            severity, why = "warning", f"with {helped}, it falls"
        else:
            severity, why = self._unexplained(subject, step, trial)
        return Found(
            step=0,
            severity=severity,
            message=f"trained on one batch for {len(losses)} steps, the loss goes from "
            f"{losses[0]:.4g} to {level:.4g} and stays there; {why}",
            location=loss.location if loss is not None else None,
            fixes=(advice,) if advice else (),
            evidence={
                "first": float(losses[0]),
                "level": level,
                "two_rows": _level(two),
                "helps": helped,
            },
        )

    def _unexplained(self, subject: Subject, step: Step, trial: Trial) -> tuple[Severity, str]:
        """Return the severity and the cause if neither two rows nor a remedy lower the loss."""
        loss, first, level = step.loss, float(trial.losses[0]), _level(trial.losses)
        floor = known_floor(loss, level, trial.right) if loss is not None else ""
        if floor:
            return "error", f"this is the lowest loss with {floor}"
        if trial.right >= self.all_right:
            limits = "the model limits its own confidence"
            return "info", f"every prediction is right by then, so {limits}"
        why = "no other learning rate, regularization, or optimizer helps"
        why += self._locate_fault(subject, step)
        stuck = first - level < self.unchanged * first
        sure = loss is not None and (ends_at_zero(loss) or stuck)
        return "error" if sure else "warning", why

    def _locate_fault(self, subject: Subject, step: Step) -> str:
        """Train the predictions instead of the weights; return the conclusion in words."""
        if subject.left_s < 2.0:
            return ""
        limit = min(self.seconds, subject.left_s / 2)
        try:
            losses = step.train(Change(predictions="free"), self.steps // 2, limit).losses
        except NotApplicable:
            return ""
        if len(losses) < self.least_steps or not np.isfinite(losses).all():
            return ""
        if _level(losses) < (1 - self.fallen) * float(losses[0]):
            return ", but the predictions alone can lower it: the fault lies before the loss"
        return ", and the predictions alone cannot lower it: the fault lies in the loss"

    def _remedies(self, subject: Subject, step: Step, level: float) -> Iterator[tuple[str, str]]:
        """Yield the changes with which the loss falls further, and the advice for each."""
        for change, words, advice in REMEDIES:
            if subject.left_s < 2.0:
                return
            steps = self.steps if change.rate < 1 else self.steps // 2
            losses = step.train(change, steps, min(self.seconds, subject.left_s / 2)).losses
            helped = len(losses) >= self.least_steps and bool(np.isfinite(losses).all())
            if helped and _level(losses) < level - self.helps * float(losses[0]):
                yield words, advice

    def _trial(self, step: Step, change: Change, steps: int, seconds: float) -> Trial:
        """Make a trial.

        Raises:
            NotEnoughData: the trial is too short, or its first loss is not finite.
            NotApplicable: a loss is negative, or is 0 from the start.
        """
        trial = step.train(change, steps, seconds)
        if len(trial.losses) < self.least_steps:
            why = f": {trial.ended}" if trial.ended else ""
            raise NotEnoughData(
                f"needs {self.least_steps} steps, but the trial took {len(trial.losses)}{why}"
            )
        if np.isnan(trial.losses).all():
            raise NotApplicable("no backward call of the step starts from a scalar")
        if not math.isfinite(trial.losses[0]):
            raise NotEnoughData("the loss of the recorded step is not finite")
        if np.nanmin(trial.losses) < 0:
            raise NotApplicable("the loss is negative, so its lower bound is unknown")
        if trial.losses[0] == 0:
            raise NotApplicable("the loss is 0 from the start")
        return trial

    def _is_flat(self, losses: Array, loss: LossSeen | None) -> bool:
        """Return whether the losses stopped falling above the lowest possible loss."""
        first, *_, third, last = quarters = _quarters(losses)
        begin = float(losses[0])
        least = least_loss(loss) if loss is not None else 0.0
        remaining = self.remaining if loss is not None and ends_at_zero(loss) else 0.0
        above = last > max((remaining or self.remaining_unknown) * begin, 1.1 * least + 1e-3)
        slow = third - last > 0.5 * (first - quarters[1]) and last < third
        if slow and begin - last > self.unchanged * begin:
            return False
        return above and third - last < self.flat * begin


def _not_finite(losses: Array, loss: LossSeen | None) -> Found:
    """Report a loss that becomes NaN or infinite while one batch is learned."""
    place = int(np.argmin(np.isfinite(losses)))
    return Found(
        step=0,
        severity="warning",
        message=f"trained on one batch, the loss starts at {losses[0]:.4g} and is NaN or infinite "
        f"after {place} steps",
        location=loss.location if loss is not None else None,
        fixes=(
            "Look for a logarithm, a division, or a root of a value that can become 0, and use a "
            "loss function that takes logits.",
            "Lower the learning rate, or clip the gradient.",
        ),
        evidence={"first": float(losses[0]), "steps": place},
    )


def _quarters(losses: Array) -> list[float]:
    """Return the median loss of each quarter of a trial."""
    return [float(np.median(part)) for part in np.array_split(losses, 4)]


def _level(losses: Array) -> float:
    return float(np.median(losses[-max(3, len(losses) // 10) :]))


def _pair(step: Step) -> tuple[int, int] | None:
    """Return two rows of different targets; the first two if the targets are not known."""
    target, loss = step.target, step.loss
    if target is None or loss is None or not target.ndim:
        return 0, 1
    for row in range(1, len(target)):
        if not np.array_equal(target[0], target[row]):
            return 0, row
    return None if len(target) > 1 and not math.isnan(loss.value) else (0, 1)


def _contradicts(step: Step) -> bool:
    """Return whether equal inputs have different targets, so that no model can fit the batch."""
    if step.forward is None or step.target is None:
        return False
    rows, target = step.forward.rows, step.target
    inputs = [array for array in step.forward.inputs.values() if array.ndim]
    if not inputs or not target.ndim or any(len(one) != rows for one in (*inputs, target)):
        return False
    known: dict[bytes, bytes] = {}
    for row in range(rows):
        given = b"".join(array[row].tobytes() for array in inputs)
        if known.setdefault(given, target[row].tobytes()) != target[row].tobytes():
            return True
    return False
