"""GRD109: gradients are cleared between the micro-batches of a step."""

from __future__ import annotations

from mothtrap.core.errors import NotApplicable
from mothtrap.core.facts.optimizers import MicroBatchesCleared
from mothtrap.core.found import Found
from mothtrap.core.needs import Need
from mothtrap.core.own_rules import rule
from mothtrap.core.thresholds import threshold
from mothtrap.core.window import Window


@rule(
    "GRD109",
    title="micro-batches are cleared",
    needs=[Need(facts=(MicroBatchesCleared,))],
    explains=("learning_rate_too_low", "loss_not_decreasing", "loss_oscillating", "update_ratio"),
)
def micro_batches_cleared(
    window: Window, *, num_steps: int = threshold(8, unit="steps", source="chosen by hand")
) -> Found | None:
    """Gradients are cleared between the micro-batches of a step.

    What it detects:
        Several `backward()` calls from the same line before each step, with a `zero_grad()` between
        them. The step applies the gradient of the last micro-batch only.

    Why it matters:
        The other micro-batches are computed for nothing. The effective batch is smaller than
        planned, and the last gradient is divided by the number of micro-batches.

    Fires:
        Warning when in each of the first `num_steps` steps with several micro-batches all gradients
        but the last were cleared.

    Stays quiet:
        If any step adds the gradients of two micro-batches. For backward passes of different lines,
        such as the two passes of sharpness-aware minimization.

    What to do:
        - PyTorch: Call `zero_grad()` once per step: after `optimizer.step()`, or before the loop
          over the micro-batches.

    Example:
        for x, y in micro_batches:
            optimizer.zero_grad()              # clears the gradient of the micro-batch before
            (loss_of(x, y) / len(micro_batches)).backward()
        optimizer.step()

    References:
        https://docs.pytorch.org/docs/stable/notes/amp_examples.html#gradient-accumulation
    """
    first = next(window.seen(MicroBatchesCleared, steps=num_steps), None)
    if first is None:
        raise NotApplicable("no gradients of micro-batches were cleared")
    if first.steps < num_steps:
        return None
    return Found.of(
        first,
        f"{first.optimizer} applies only the last of {first.micro_batches} micro-batches: "
        f"zero_grad() discards the gradients of the other {first.micro_batches - 1} in all "
        f"{first.steps} inspected steps (limit {num_steps})",
        step=max(0, first.step - first.steps + 1),
        count=first.steps,
        evidence={
            "micro_batches": first.micro_batches,
            "steps": first.steps,
            "limit": num_steps,
        },
    )
