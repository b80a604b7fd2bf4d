"""Facts about where the time of training steps goes."""

from __future__ import annotations

from mothtrap.core.fact import Fact


class PhasesTimed(Fact, frozen=True, kw_only=True, tag=True):
    """Seconds of the training thread by phase, from the end of step `first_step` - 1 to `step`.

    They add up to the wall time. On an accelerator they are times of the host, which may wait for
    the device in any phase. `idle` is the share of the machine's processors that did nothing.
    """

    first_step: int
    seconds: dict[str, float]
    idle: float = 0.0
    accelerator: bool = False
