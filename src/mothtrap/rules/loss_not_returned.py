"""RUN910: the training step returns no loss, so that nothing is trained."""

from __future__ import annotations

from mothtrap.core.errors import NotApplicable
from mothtrap.core.facts.trainers import LossNotReturned, TrainerSettings
from mothtrap.core.found import Found
from mothtrap.core.needs import Need
from mothtrap.core.own_rules import rule
from mothtrap.core.thresholds import threshold
from mothtrap.core.window import Window


@rule(
    "RUN910",
    severity="error",
    needs=[Need(facts=(TrainerSettings,)), Need(facts=(LossNotReturned,))],
    explains=("step_without_backward", "loss_not_decreasing", "stuck_at_chance"),
)
def loss_not_returned(
    window: Window,
    *,
    calls: int = threshold(20, unit="calls", source="chosen by hand: scripts may skip a batch"),
) -> Found | None:
    """The training step returns no loss, so nothing is trained.

    What it detects:
        A `training_step` of Lightning that returns `None` although Lightning calls `backward` and
        the optimizer.

    Why it matters:
        Lightning skips such a step without an error. The logged loss looks normal, but the weights
        never change.

    Fires:
        Error when the first `calls` calls all returned `None`.

    Stays quiet:
        For manual optimization. For steps that return `None` now and then, to skip a batch.

    What to do:
        - Return the loss at the end of `training_step`: `return loss`.
        - If the method calls the optimizer itself, set `self.automatic_optimization = False`.

    Example:
        def training_step(self, batch, batch_idx):
            loss = F.cross_entropy(self(batch[0]), batch[1])
            self.log("train_loss", loss)        # `return loss` was forgotten

    References:
        https://lightning.ai/docs/pytorch/stable/common/lightning_module.html#training-step
    """
    if next(window.seen(TrainerSettings), None) is None:
        raise NotApplicable("this training run uses no trainer")
    for one in window.seen(LossNotReturned):
        if one.calls >= calls:
            return Found.of(
                one,
                f"training_step of {one.model} returned None in all of the first {one.calls} "
                "calls: no step was taken, and the weights do not change",
                step=0,
                count=one.calls,
                evidence={"calls": one.calls, "limit": calls},
            )
    return None
