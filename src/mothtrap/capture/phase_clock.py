"""Timing of the phases of training steps, for the breakdown of a run's time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import psutil

from mothtrap.capture.step_times import StepTimes
from mothtrap.core.facts.phases import PhasesTimed
from mothtrap.core.phases import EVALUATION, FORWARD, LOSS, OTHER, OWN, PHASES

EVERY, EVERY_S = 100, 30.0
"""Number of steps, or seconds, that one fact summarizes; chosen by hand."""


class PhaseClock:
    """Exclusive clock of the training thread: exactly one phase runs at any time.

    mothtrap's time within a phase counts as its own time. A change of phase costs a third of a
    microsecond.

    Args:
        times: contains the clock and mothtrap's own time.

    Attributes:
        is_used: an adapter enters phases; otherwise nothing is reported.
        accelerator: returns whether the training computes on an accelerator.
        in_forward: a model is running, whose submodules are not considered.
    """

    def __init__(self, times: StepTimes, cpu_times: Callable[[], Any] = psutil.cpu_times) -> None:
        self._times, self._clock, self._cpu_times = times, times.clock, cpu_times
        self.is_used = self.in_forward = False
        self.accelerator: Callable[[], bool] = lambda: False
        self.begin(0)

    def begin(self, step: int) -> None:
        """Restart the clock; `step` is the next step."""
        self._first = step
        self._seconds = dict.fromkeys(PHASES, 0.0)
        self._phase = self._after_forward = OTHER
        self._since_s, self._own_s = self._clock(), self._times.own_s
        self._began_s = self._since_s
        self._cpu_before = self._cpu_times() if self.is_used else None

    def enter(self, phase: str) -> str:
        """Begin a phase; return the previous one."""
        now_s, all_own_s = self._clock(), self._times.own_s
        own_s = all_own_s - self._own_s
        before, seconds = self._phase, self._seconds
        seconds[before] += now_s - self._since_s - own_s
        seconds[OWN] += own_s
        self._phase, self._since_s, self._own_s = phase, now_s, all_own_s
        return before

    def forward_began(self, trains: bool) -> None:
        """Begin the forward pass of a model; `trains`: a gradient may be computed."""
        self.in_forward = True
        self._after_forward = LOSS if trains else OTHER
        self.enter(FORWARD if trains else EVALUATION)

    def forward_ended(self) -> None:
        """End the forward pass; the loss phase follows unless the model was evaluated."""
        self.in_forward = False
        self.enter(self._after_forward)

    def closed(self, step: int, *, last: bool = False) -> tuple[PhasesTimed, ...]:
        """Return the times since the last report, if a report is due.

        Args:
            step: step that closes.
            last: this is the last report.
        """
        if not self.is_used or step < self._first:
            return ()
        is_whole = step - self._first + 1 >= EVERY or self._clock() - self._began_s >= EVERY_S
        if not (last or is_whole):
            return ()
        phase = self.enter(self._phase)
        timed = PhasesTimed(
            step=step,
            first_step=self._first,
            seconds={name: max(0.0, seconds) for name, seconds in self._seconds.items()},
            idle=self._idle(),
            accelerator=self.accelerator(),
        )
        self.begin(step + 1)
        self._phase = phase
        return (timed,)

    def _idle(self) -> float:
        """Return the idle share of the processors' time since `begin`."""
        before, now = self._cpu_before, self._cpu_times()
        if before is None:
            return 0.0
        spent = {name: getattr(now, name) - getattr(before, name) for name in now._fields}
        whole = sum(seconds for name, seconds in spent.items() if not name.startswith("guest"))
        return (spent["idle"] + spent.get("iowait", 0.0)) / whole if whole > 0 else 0.0
