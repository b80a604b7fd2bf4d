"""RUN908: the guard skips every step, so the weights no longer change."""

from __future__ import annotations

from mothtrap.core.errors import NotApplicable, NotEnoughData
from mothtrap.core.facts.guards import StepGuarded
from mothtrap.core.findings import Finding, Severity
from mothtrap.core.frozen import frozen
from mothtrap.core.needs import Need
from mothtrap.core.rule import Rule
from mothtrap.core.steps import Mode
from mothtrap.core.thresholds import threshold
from mothtrap.core.window import Window

LEFT_OUT = ("skipped", "refused")
"""Actions after which training continues without the step."""


@frozen
class UpdatesAllSkipped(Rule):
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

    code = "RUN908"
    title = "all updates skipped"
    needs = (Need(facts=(StepGuarded,), each_step=True), Need(scalars=("loss",), optional=True))

    num_steps: int = threshold(
        20, unit="steps", source="chosen by hand: an adaptive loss scale skips fewer in a row"
    )

    def check(self, window: Window) -> list[Finding]:
        """Search for the last step that was applied."""
        guarded = [
            seen
            for seen in window.seen(StepGuarded)
            if seen.action in LEFT_OUT and seen.mode is Mode.TRAIN
        ]
        if not guarded:
            raise NotApplicable("no step was skipped")
        steps = [int(step) for step in window.steps_S]
        if len(steps) < self.num_steps:
            raise NotEnoughData(f"needs {self.num_steps} steps, saw {len(steps)}")
        left_out = {seen.step: seen for seen in guarded}
        if any(step not in left_out for step in steps[-self.num_steps :]):
            return []
        first = next((step for step in reversed(steps) if step not in left_out), steps[0] - 1) + 1
        while first - 1 in left_out:  # before the window
            first -= 1
        return [
            self.finding(
                window,
                severity=Severity.ERROR,
                step=first,
                last_step=steps[-1],
                count=steps[-1] + 1 - first,
                message=f"the guard skipped every step from {first} to {steps[-1]}, so the weights "
                f"no longer change; at step {first}, {_reason(left_out[first])}",
                evidence={"first step": first, "last step": steps[-1]},
                location=left_out[first].location,
            )
        ]


def _reason(guarded: StepGuarded) -> str:
    """Return the reason without the location, which the finding has."""
    return guarded.reason.removesuffix(f" ({guarded.location})")
