"""GRD113: a trainer is set to accumulate gradients, but every batch makes a step."""

from __future__ import annotations

from mothtrap.core.errors import NotApplicable, NotEnoughData
from mothtrap.core.facts.trainers import TrainerSettings
from mothtrap.core.found import Found
from mothtrap.core.needs import Need
from mothtrap.core.own_rules import rule
from mothtrap.core.proof import Proof
from mothtrap.core.thresholds import threshold
from mothtrap.core.window import Window


@rule(
    "GRD113",
    needs=[Need(facts=(TrainerSettings,), scalars=("micro_batches",))],
    proof=Proof(title="Micro-batches per step", scalars=("micro_batches",)),
    explains=("loss_oscillating", "learning_rate_too_low", "loss_not_decreasing"),
)
def accumulation_without_effect(
    window: Window, *, steps: int = threshold(20, unit="steps", source="chosen by hand")
) -> Found | None:
    """A trainer is set to accumulate gradients, but every batch makes a step.

    What it detects:
        An `Accelerator` with `gradient_accumulation_steps` above 1 whose steps each have only one
        backward pass, because the script does not use `accelerator.accumulate`.

    Why it matters:
        `accelerator.backward` divides each loss by the number of batches to accumulate, so the
        gradients are that many times too small. The batch of a step is that many times smaller
        than intended, and a schedule that counts steps ends too early.

    Fires:
        Warning when each of at least `steps` steps has one backward pass.

    Stays quiet:
        When the setting is 1. When any step has several backward passes.

    What to do:
        - Run the forward, the backward, and the step of each batch inside
          `with accelerator.accumulate(model):`.
        - Or remove `gradient_accumulation_steps`.

    Example:
        accelerator = Accelerator(gradient_accumulation_steps=4)
        for x, y in loader:
            with accelerator.accumulate(model):
                accelerator.backward(criterion(model(x), y))
                optimizer.step()
                optimizer.zero_grad()

    References:
        https://huggingface.co/docs/accelerate/usage_guides/gradient_accumulation
    """
    settings = [one for one in window.seen(TrainerSettings) if one.accumulates > 1]
    if not settings:
        raise NotApplicable("no trainer is set to accumulate gradients")
    counted = [one for one in window.scalars("micro_batches") if len(one)]
    if not counted or max(len(one) for one in counted) < steps:
        raise NotEnoughData(f"needs {steps} steps with a backward pass")
    if any((one.values_S > 1).any() for one in counted):
        return None
    number = settings[-1].accumulates
    return Found.of(
        settings[-1],
        f"{settings[-1].trainer} is set to accumulate the gradients of {number} batches, but every "
        f"step has one backward pass: gradients are {number} times too small",
        step=int(counted[0].steps_S[0]),
        last_step=int(counted[0].steps_S[-1]),
        count=len(counted[0]),
        evidence={"accumulates": number, "steps": len(counted[0])},
    )
