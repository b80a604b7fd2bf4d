"""In which order the gradients of an optimizer are made, cleared and applied."""

from __future__ import annotations

from dataclasses import dataclass

from mothtrap.adapters.torch import frames


@dataclass(slots=True, eq=False)
class GradientOrder:
    """What was done to the gradients of one optimizer since its own last step.

    Attributes:
        made: a backward has begun.
        cleared: `zero_grad` has thrown new gradients away, and no backward has begun since.
        cleared_at: the line that did so last.
        told: the last step had no gradients for that reason.
    """

    made: bool = False
    cleared: bool = False
    cleared_at: str | None = None
    told: bool = False

    def backward_began(self) -> None:
        """New gradients may come."""
        self.made, self.cleared = True, False

    def clears(self) -> None:
        """`zero_grad` is called, and throws away gradients that no step has applied."""
        self.cleared, self.cleared_at = True, frames.location(frames.user_frame())

    def stepped(self, *, absent: bool) -> bool:
        """Begin anew; return whether this step, unlike the last, had its gradients cleared.

        Args:
            absent: the step found no gradients.
        """
        before, self.told = self.told, absent and self.cleared
        self.made = self.cleared = False
        return self.told and not before
