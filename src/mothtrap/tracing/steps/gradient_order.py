"""Order in which the gradients of an optimizer are computed, clipped, cleared, and applied."""

from __future__ import annotations

from dataclasses import dataclass, field

from mothtrap.core.facts.optimizers import ClippedLate, GradientsCleared, MicroBatchesCleared
from mothtrap.tracing.source import frames

ENOUGH = 8
"""Number of steps with only the gradients of the last micro-batch before this is reported. Chosen
by hand."""


@dataclass(slots=True, eq=False)
class GradientOrder:
    """Operations on the gradients of one optimizer since its last step.

    Attributes:
        made: a backward pass has begun.
        cleared: `zero_grad` has discarded new gradients, and no backward pass has begun since.
        cleared_at: the line that last discarded gradients.
        told: whether the last step had no gradients for this reason.
        clipped: gradients were clipped before a step applied them.
        late: gradients were clipped after its last step had applied them.
        late_at: the line that last clipped too late.
        late_since: the first step with late clipping.
        late_steps: steps before which only gradients were clipped that were cleared later.
        timely_steps: steps whose gradients were clipped before they were applied.
        lines: lines of its backward passes.
        backwards: number of its backward passes.
        lost: new gradients that were discarded before another backward pass.
        lost_steps: steps so far of which only the last micro-batch counts.
        adds: a step has applied the sum of several micro-batches.
    """

    made: bool = False
    cleared: bool = False
    cleared_at: str | None = None
    told: bool = False
    clipped: bool = False
    late: bool = False
    late_at: str | None = None
    late_since: int = -1
    late_steps: int = 0
    timely_steps: int = 0
    lines: set[str] = field(default_factory=set)
    backwards: int = 0
    lost: int = 0
    lost_steps: int = 0
    adds: bool = False

    def backward_begins(self, line: str) -> None:
        """Record that a backward pass of a line begins."""
        self.lines.add(line)
        self.backwards += 1
        self.lost += self.cleared
        self.made, self.cleared = True, False

    def clears(self) -> None:
        """Record that `zero_grad` discards gradients that no step has applied."""
        self.cleared, self.cleared_at = True, frames.user_location()
        self.clipped = False

    def clipped_late(self, step: int) -> None:
        """Record that gradients were clipped after the given step had applied them."""
        self.late, self.late_at = True, frames.user_location()
        if self.late_since < 0:
            self.late_since = step

    def stepped(
        self, step: int, name: str, *, absent: bool, clean: bool
    ) -> list[GradientsCleared | ClippedLate | MicroBatchesCleared]:
        """Reset for the next step; return the report about this step.

        Args:
            step: number of the step.
            name: name of the optimizer.
            absent: there were no gradients.
            clean: the gradients of the previous step had been cleared before the gradients of this
                step were computed.
        """
        found: list[GradientsCleared | ClippedLate | MicroBatchesCleared] = []
        if self._counts_lost():
            found.append(
                MicroBatchesCleared(
                    step=step,
                    optimizer=name,
                    steps=self.lost_steps,
                    micro_batches=self.backwards,
                    location=self.cleared_at,
                )
            )
        before, self.told = self.told, absent and self.cleared
        if self.told and not before:
            found.append(GradientsCleared(step=step, optimizer=name, location=self.cleared_at))
        if (self.clipped or self.late) and self._counts_clipping(clean):
            found.append(
                ClippedLate(
                    step=step,
                    optimizer=name,
                    since=self.late_since,
                    late_steps=self.late_steps,
                    timely_steps=self.timely_steps,
                    location=self.late_at,
                )
            )
        self.begin()
        return found

    def begin(self) -> None:
        """Record that the optimizer has stepped."""
        self.made = self.cleared = self.clipped = self.late = False
        self.lost = self.backwards = 0
        self.lines.clear()

    def _counts_lost(self) -> bool:
        """Return whether to report that steps apply their last micro-batch only."""
        if self.backwards < 2 or len(self.lines) > 1:
            return False
        self.adds = self.adds or self.lost < self.backwards - 1
        self.lost_steps += not self.adds
        return not self.adds and self.lost_steps == ENOUGH

    def _counts_clipping(self, clean: bool) -> bool:
        """Return whether to report: at every power of two, and if clipping was not always late."""
        if self.clipped:
            self.timely_steps += 1
            return self.timely_steps == 1 and self.late_steps > 0
        if not (self.late and clean):
            return False
        self.late_steps += 1
        return self.late_steps & (self.late_steps - 1) == 0
