"""RUN910: the training step returns no loss, so that nothing is trained."""

from __future__ import annotations

from mothtrap.core.errors import NotApplicable
from mothtrap.core.facts.trainers import LossNotReturned, TrainerSettings
from mothtrap.core.findings import Finding, Severity
from mothtrap.core.frozen import frozen
from mothtrap.core.needs import Need
from mothtrap.core.rule import Rule
from mothtrap.core.thresholds import threshold
from mothtrap.core.window import Window


@frozen
class LossNotReturnedRule(Rule):
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

    code = "RUN910"
    needs = (Need(facts=(TrainerSettings,)), Need(facts=(LossNotReturned,)))
    explains = ("step_without_backward", "loss_not_decreasing", "stuck_at_chance")

    calls: int = threshold(20, unit="calls", source="chosen by hand: scripts may skip a batch")

    def check(self, window: Window) -> list[Finding]:
        """Check the results of the training steps."""
        if not any(True for _ in window.seen(TrainerSettings)):
            raise NotApplicable("this training run uses no trainer")
        return [
            self.finding(
                window,
                severity=Severity.ERROR,
                step=0,
                last_step=one.step,
                count=one.calls,
                message=(
                    f"training_step of {one.model} returned None in all of the first {one.calls} "
                    "calls: no step was taken, and the weights do not change"
                ),
                evidence={"calls": one.calls, "limit": self.calls},
                location=one.location,
            )
            for one in window.seen(LossNotReturned)
            if one.calls >= self.calls
        ][:1]
