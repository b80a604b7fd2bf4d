"""RUN908: the guard skips every step, so the weights no longer change."""

from __future__ import annotations

from mothtrap.core.errors import NotApplicable, NotEnoughData
from mothtrap.core.facts.guards import StepGuarded
from mothtrap.core.found import Found
from mothtrap.core.needs import Need
from mothtrap.core.own_rules import rule
from mothtrap.core.steps import Mode
from mothtrap.core.thresholds import threshold
from mothtrap.core.window import Window

LEFT_OUT = ("skipped", "refused")
"""Actions after which training continues without the step."""


@rule(
    "RUN908",
    title="all updates skipped",
    severity="error",
    needs=[Need(facts=(StepGuarded,), each_step=True), Need(scalars=("loss",), optional=True)],
)
def updates_all_skipped(
    window: Window,
    *,
    num_steps: int = threshold(
        20, unit="steps", source="chosen by hand: an adaptive loss scale skips fewer in a row"
    ),
) -> Found | None:
    """The guard skips every step, so the weights no longer change.

    What it detects:
        A training run that continues although steps are no longer applied: each step has a loss or
        a gradient that is not finite, or a gradient norm above the limit.

    Why it matters:
        The weights keep the values of the last applied step. All later steps are wasted.

    Fires:
        Error when the guard, or the script itself, skipped each of the last `num_steps` steps.

    Stays quiet:
        While any of these steps was applied, and if a guard stops the job.

    What to do:
        - Stop the job and fix the first skipped step. If the weights themselves are the
          cause, continue from a checkpoint of an earlier step.

    Example:
        mothtrap run --on-nonfinite skip train.py      # every step from 90 on is NaN
        mothtrap run --on-nonfinite stop train.py      # the job ends at step 90

    References:
        docs/guard.md
    """
    left_out = {
        seen.step: seen
        for seen in window.seen(StepGuarded)
        if seen.action in LEFT_OUT and seen.mode is Mode.TRAIN
    }
    if not left_out:
        raise NotApplicable("no step was skipped")
    steps = [int(step) for step in window.steps_S]
    if len(steps) < num_steps:
        raise NotEnoughData(f"needs {num_steps} steps, saw {len(steps)}")
    if any(step not in left_out for step in steps[-num_steps:]):
        return None
    first = next((step for step in reversed(steps) if step not in left_out), steps[0] - 1) + 1
    while first - 1 in left_out:  # before the window
        first -= 1
    guarded = left_out[first]
    reason = guarded.reason.removesuffix(f" ({guarded.location})")  # which the finding has
    return Found.of(
        guarded,
        f"the guard skipped every step from {first} to {steps[-1]}, so the weights no longer "
        f"change; at step {first}, {reason}",
        last_step=steps[-1],
        count=steps[-1] + 1 - first,
        evidence={"first step": first, "last step": steps[-1]},
    )
