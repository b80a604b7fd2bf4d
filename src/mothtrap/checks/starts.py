"""First steps of a script, in each of two starts, and the loops around them."""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec

CANNOT_START = "this script cannot be started again by a check"
"""Default reason why a check that needs a second start does not apply."""


class StartSeen(msgspec.Struct, frozen=True, kw_only=True):
    """First steps of one start of a script.

    Attributes:
        losses: Loss of each step; NaN if unknown.
        weights: digest of each parameter after these steps.
        seconds: Duration of each step; the first step includes setup.
        waits_s: Seconds that each step waited for data.
        memory_bytes: largest memory of the process so far.
        device_bytes: peak memory of tensors on an accelerator; 0 without an accelerator.
    """

    losses: tuple[float, ...]
    weights: tuple[str, ...] = ()
    seconds: tuple[float, ...] = ()
    waits_s: tuple[float, ...] = ()
    memory_bytes: int = 0
    device_bytes: int = 0


class Starts(msgspec.Struct, frozen=True, kw_only=True):
    """Two starts of a script.

    Attributes:
        first: The observed start; its durations include the time of observation.
        second: The start that was not observed.
        seeded: Whether the script seeded its framework's random generator.
    """

    first: StartSeen
    second: StartSeen
    seeded: bool = False


class LoopsSeen(msgspec.Struct, frozen=True, kw_only=True):
    """Number of optimizer steps that the loops of a script make.

    Attributes:
        steps: Steps of the whole run; NaN if a loop has no known end.
        epoch: Steps of the innermost loop; NaN if it has no known end or is the only loop.
    """

    steps: float = math.nan
    epoch: float = math.nan

    def within(self, turns: Sequence[float]) -> LoopsSeen:
        """Return the step counts when further loops enclose these loops.

        Args:
            turns: Iterations of each enclosing loop, innermost first.
        """
        if not turns:
            return self
        epoch = self.steps if math.isnan(self.epoch) else self.epoch
        return LoopsSeen(steps=self.steps * math.prod(turns), epoch=epoch)
