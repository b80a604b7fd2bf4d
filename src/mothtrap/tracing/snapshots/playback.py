"""Replay of a snapshot in the script of this process, for every framework."""

from __future__ import annotations

import atexit
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import msgspec

from mothtrap.capture.containment import Containment, say_on_stderr
from mothtrap.capture.recorder import Recorder
from mothtrap.core import registry
from mothtrap.core.config import Config
from mothtrap.core.error_texts import in_one_line
from mothtrap.core.replays import ReplayPlan, ReplayResult
from mothtrap.snapshot.format import load
from mothtrap.snapshot.row_search import Trial, guilty
from mothtrap.tracing.jobs.adapter_job import AdapterJob
from mothtrap.tracing.jobs.process_job import ProcessJob
from mothtrap.tracing.snapshots.outcome import Outcome

QUIET: Final = Config(capture="off", overhead=0.0, ring_mb=0.0)
"""Configuration that captures nothing: handles only name objects."""
MAX_TRIALS: Final = 48


class Playback:
    """Replays a snapshot, and ends the process with the outcome.

    Args:
        plan: plan of the replay.
        goal: location in the script at which the step begins, in words.

    Attributes:
        loaded: the snapshot.
    """

    def __init__(self, plan: ReplayPlan, goal: str) -> None:
        number = min(plan.workers)
        self.plan, self.outcome = plan, Outcome(plan, number)
        self.loaded = load(Path(plan.workers[number]))
        self._goal = goal
        atexit.register(self._script_ended)

    def play(self, act: Callable[[], ReplayResult | None]) -> None:
        """Replay the recorded step once the script reaches it, then exit with the result."""
        try:
            result = act()
        except Exception as err:
            traceback.print_exc(file=sys.stderr)
            result = ReplayResult(notes=(f"the replay itself failed: {in_one_line(err)}",))
        if result is not None:
            self.outcome.finish(result)

    def refuse_conversions(self, framework: str, *, dtype: bool = True) -> None:
        """Note that the requested device or `dtype` was ignored for the step."""
        asked = {"device": self.plan.device, "dtype": self.plan.dtype if dtype else None}
        for name, given in asked.items():
            if given and not (name == "device" and given == "cpu"):
                self.outcome.note(
                    f"--{name} is not possible for {framework}: the step is replayed as recorded"
                )

    def _script_ended(self) -> None:
        error = getattr(sys, "last_value", None)
        why = f"the script ended before {self._goal}"
        if error is not None:
            why = f"the script failed: {in_one_line(error)}"
        self.outcome.unreached(ReplayResult(notes=(why,)))


def quiet_job(framework: str) -> AdapterJob:
    """Return a job that records nothing."""
    recorder: Recorder[Any] = Recorder(
        registry.load("mothtrap.statistics", "numpy"),
        (),
        Containment(say_on_stderr),
        overhead=0.0,
        on_first_step=lambda: None,
    )
    return AdapterJob(ProcessJob(recorder, QUIET), framework)


def with_rows(
    result: ReplayResult, trial: Trial, count: int, suspects: tuple[int, ...]
) -> ReplayResult:
    """Add the rows that make a step fail.

    Args:
        result: result of the step with its whole batch.
        trial: repeats the step with some rows.
        count: number of rows of the batch.
        suspects: rows to try first.
    """
    verdict = guilty(trial, count, suspects, most=MAX_TRIALS)
    told = (*result.told, verdict.sentence)
    return msgspec.structs.replace(result, told=told, rows=verdict.rows, batch_rows=count)
