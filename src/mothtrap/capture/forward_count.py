"""Number of training forwards of a step that are captured."""

from __future__ import annotations

from mothtrap.core.facts.captures import Dropped

OPEN_FORWARDS = 256
"""Training forwards of one step whose outputs are kept: more are no accumulation but
inference, or steps that no optimizer makes; chosen by hand."""


class ForwardCount:
    """Counts the training forwards of the step in progress.

    Attributes:
        is_enough: whether nothing more is captured of training forwards in this step.
    """

    def __init__(self) -> None:
        self._forwards, self.is_enough = 0, False

    def add(self) -> bool:
        """Count one; whether it is captured."""
        is_captured = not self.is_enough
        self._forwards += 1
        self.is_enough = self._forwards >= OPEN_FORWARDS
        return is_captured

    def take(self, step: int) -> Dropped | None:
        """Begin anew; return what is to be told of forwards that were not captured."""
        unseen, self._forwards, self.is_enough = self._forwards - OPEN_FORWARDS, 0, False
        if unseen <= 0:
            return None
        reason = f"more than {OPEN_FORWARDS} forwards without an optimizer step"
        return Dropped(step=step, what="forwards", count=unseen, reason=reason)
