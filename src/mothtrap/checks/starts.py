"""First steps of a script, in each of two starts, and the loops around them."""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec


class StartSeen(msgspec.Struct, frozen=True, kw_only=True):
    """First steps of one start of a script.

    Attributes:
        losses: of the steps; NaN where none is known.
        weights: digest of each parameter after these steps.
        seconds: duration of each step; the first one also has what is set up in it.
        waits_s: seconds of each step that the loop waited for data.
        memory_bytes: largest memory of the process so far.
        device_bytes: largest memory that tensors took on an accelerator; 0 without one.
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
        first: the start that was watched; its durations include the time that watching took.
        second: the start that was not watched.
        seeded: the script seeded the random numbers of its framework.
    """

    first: StartSeen
    second: StartSeen
    seeded: bool = False


class LoopsSeen(msgspec.Struct, frozen=True, kw_only=True):
    """Number of optimizer steps that the loops of a script make.

    Attributes:
        steps: of the whole run; NaN where a loop has no known end.
        epoch: of the innermost loop; NaN where it has no known end, or is the only one.
    """

    steps: float = math.nan
    epoch: float = math.nan

    def within(self, turns: Sequence[float]) -> LoopsSeen:
        """Return the steps of the same loops if further loops are around them.

        Args:
            turns: of each further loop, the innermost first.
        """
        if not turns:
            return self
        epoch = self.steps if math.isnan(self.epoch) else self.epoch
        return LoopsSeen(steps=self.steps * math.prod(turns), epoch=epoch)
