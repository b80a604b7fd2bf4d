"""Compare the first steps of two starts of a script, and find how many steps follow."""

from __future__ import annotations

import atexit
import math
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import msgspec
import torch

from mothtrap.adapters.torch.checking.recording import Recording
from mothtrap.adapters.torch.checking.resuming import digest
from mothtrap.adapters.torch.checking.scaled_losses import ScaledLosses
from mothtrap.adapters.torch.checking.shortened import Shortened
from mothtrap.adapters.torch.checking.switch import Switch
from mothtrap.adapters.torch.job import devices
from mothtrap.adapters.torch.replaying.interception import Interception
from mothtrap.checks.restarts import write_whole
from mothtrap.checks.starts import LoopsSeen, StartSeen
from mothtrap.core.check_plan import CheckPlan
from mothtrap.tracing.jobs.process_memory import peak_bytes
from mothtrap.tracing.source.loops import turns_around


def steps_of(recording: Recording) -> StartSeen:
    """Return the steps recorded so far."""
    return StartSeen(
        losses=tuple(recording.losses),
        weights=tuple(digest(one) for one in recording.parameters.values()),
        seconds=tuple(recording.seconds),
        waits_s=tuple(recording.waits_s),
        memory_bytes=peak_bytes(),
        device_bytes=device_bytes(),
    )


def device_bytes() -> int:
    """Return the peak memory of tensors on an accelerator; 0 without one."""
    return int(torch.cuda.max_memory_allocated()) if devices.are_in_use() else 0


def loops_seen(recording: Recording) -> LoopsSeen:
    """Return how many optimizer steps the loops around the running line will make."""
    turns = turns_around(sys._getframe(1))
    per_step = recording.events_of_turn
    if not turns:
        return LoopsSeen()
    return LoopsSeen(
        steps=math.prod(turns) / per_step,
        epoch=turns[0] / per_step if len(turns) > 1 else math.nan,
    )


class SeedsSeen:
    """Detects that the script seeds PyTorch's random generators.

    Attributes:
        seeded: the script did so.
        over: further seeds do not count, because checks also set seeds.
    """

    def __init__(self) -> None:
        self.seeded = self.over = False

    def install(self) -> None:
        """Detect seeding for the life of the process."""
        seed: Callable[..., Any] = torch.manual_seed

        def manual_seed(*args: Any, **kwargs: Any) -> Any:
            self.seeded = self.seeded or not self.over
            return seed(*args, **kwargs)

        setattr(torch, "manual_seed", manual_seed)  # noqa: B010  # for the type checker


class SecondStart:
    """Records the first steps of a restarted script, writes them, and ends it.

    Args:
        plan: settings, including the file for the steps.
    """

    def __init__(self, plan: CheckPlan) -> None:
        assert plan.repeat is not None
        self._results, self._pid = Path(plan.repeat.results), os.getpid()
        self._scaled = ScaledLosses()
        self._shortened = Shortened(plan)
        self._recording = Recording(plan.steps, self._end, self._scaled)
        self._switch = Switch()
        self._switch.player = self._recording

    def install(self) -> None:
        """Wrap the calls of the script."""
        self._scaled.install()
        Interception(self._switch, follows=True)
        self._shortened.install()
        atexit.register(self._script_ended)

    def _script_ended(self) -> None:
        if os.getpid() == self._pid:
            self._recording.finish()
            self._end()

    def _end(self) -> NoReturn:
        write_whole(self._results, msgspec.json.encode(steps_of(self._recording)))
        os._exit(0)
