"""Facts about where the time of training steps goes."""

from __future__ import annotations

from mothtrap.core.fact import Fact


class PhasesTimed(Fact, frozen=True, kw_only=True, tag=True):
    """Time of each phase on the training thread, from the end of step `first_step` - 1 to `step`.

    They add up to the wall time. On an accelerator, they are host times, and the host may wait for
    the device in any phase. `idle` is the idle share of the machine's processors.
    """

    first_step: int
    seconds: dict[str, float]
    idle: float = 0.0
    accelerator: bool = False
