"""Begin the check of a script in a process that PyTorch has just been imported into."""

from __future__ import annotations

import atexit
import functools
import os
import signal
import time
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import safetensors.torch
import torch
from torch import nn

from mothtrap.adapters.torch.checking.loader_sets import LoadersSeen
from mothtrap.adapters.torch.checking.recorded_step import RecordedStep
from mothtrap.adapters.torch.checking.recording import Recording
from mothtrap.adapters.torch.checking.switch import Switch
from mothtrap.adapters.torch.job import copies
from mothtrap.adapters.torch.reproduce.replaying.interception import Interception
from mothtrap.checks.check import Check, result_of
from mothtrap.checks.subject import Source, Subject
from mothtrap.core.check_plan import CheckPlan
from mothtrap.core.facts.checks import CheckResult
from mothtrap.core.jsonable import decode, encode

WATCHED_S = 60.0
"""Longest time for which the first steps are watched; chosen by hand."""
SPARE_S = 0.5
"""Least time that a check is given; chosen by hand."""

Finish = Callable[[Sequence[CheckResult]], object]
"""Takes the results and ends the process."""


class Checking:
    """Watches the first steps of the script, makes the checks, and ends the process.

    Args:
        plan: the orders.
        checks: those to make, in this order.
        finish: takes the results, and ends the process.
    """

    def __init__(self, plan: CheckPlan, checks: Sequence[Check], finish: Finish) -> None:
        self._plan, self._checks, self._finish = plan, checks, finish
        self._deadline = time.monotonic() + plan.budget_s - (time.time() - plan.began_s)
        self._switch = Switch()
        self._recording = Recording(plan.steps, self._hold)
        self._switch.player = self._recording
        self._loaded = False
        self._loaders = LoadersSeen()
        self._pid = os.getpid()
        self._missing: dict[Source, str] = {}

    def install(self) -> None:
        """Stand around the calls of the script."""
        self._loaders.install()
        Interception(self._switch)
        setattr(nn.Module, "load_state_dict", self._noticed(nn.Module.load_state_dict))  # noqa: B010
        atexit.register(self._script_ended)
        signal.signal(signal.SIGALRM, lambda *_: self._time_is_up())
        signal.setitimer(signal.ITIMER_REAL, min(WATCHED_S, self._plan.budget_s / 2))

    def _time_is_up(self) -> None:
        limit = min(WATCHED_S, self._plan.budget_s / 2)
        self._end_early(f"the script did not make {self._plan.steps} steps in {limit:.0f} s")

    def _noticed(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def load(*args: Any, **kwargs: Any) -> Any:
            self._loaded = self._loaded or not self._recording.gradients
            return original(*args, **kwargs)

        return load

    def _script_ended(self) -> None:
        if os.getpid() != self._pid:
            return
        self._end_early(f"the script ended after {self._recording.turns} steps")

    def _end_early(self, why: str) -> None:
        """Make the checks that need no further step of the script."""
        self._recording.finish()
        if self._recording.turns:
            self._missing["trials"] = why
            self._hold()
        else:
            why = f"{why}; no optimizer step was complete"
            self._finish([self._unmade(check, why) for check in self._checks])

    def _hold(self) -> None:
        """Make the checks, each in a copy of the process, and end the process."""
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        self._finish([self._made(check) for check in self._checks])

    def _made(self, check: Check) -> CheckResult:
        left = self._deadline - time.monotonic()
        if left < SPARE_S:
            return self._unmade(check, f"the budget of {self._plan.budget_s:.0f} s was used up")
        if copies.why_impossible():
            return self._unmade(check, copies.why_impossible())
        pid, pipe = copies.copy_process(leads_group=True)
        if pid == 0:
            self._report(check, pipe, time.monotonic() + left)
        data, in_time = copies.result_of(pid, pipe, left, group=True)
        if not in_time:
            return self._unmade(check, f"the check did not end within {left:.0f} s")
        if not data:
            return self._unmade(check, "the process that made the check crashed")
        return decode(data, CheckResult)

    def _report(self, check: Check, pipe: int, deadline: float) -> None:
        """Make one check in a copy of the process, write its result, and end the copy."""
        result = result_of(check, self._subject(deadline), self._recording.turns)
        with os.fdopen(pipe, "wb") as file:
            file.write(encode(result))
        os._exit(0)

    def _subject(self, deadline: float) -> Subject:
        step = RecordedStep(self._recording, self._switch, loaded=self._loaded)
        sets = self._loaders.sets(self._recording)
        missing = dict(self._missing)
        if not sets:
            missing["datasets"] = "the script reads no data set through a DataLoader"
        task = "" if step.loss is None else step.loss.task
        return Subject(recorded=step, datasets=sets, task=task, missing=missing, deadline=deadline)

    def _unmade(self, check: Check, why: str) -> CheckResult:
        return CheckResult(
            step=self._recording.turns, code=check.code, state="not_enough_data", reason=why
        )


class Files(Protocol):
    """Leads paths to the scratch folder; see `session.protected_files`."""

    def for_writing(self, path: Any, *, keeps: bool) -> Any:
        """Return the path to write to in the place of a path."""

    def for_reading(self, path: Any) -> Any:
        """Return the path to read from in the place of a path."""


def begin(plan: CheckPlan, checks: Sequence[Check], finish: Finish, files: Files | None) -> None:
    """Check the script that is about to run in this process."""
    if files is not None:
        lead_writes(files)
    Checking(plan, checks, finish).install()


def lead_writes(files: Files) -> None:
    """Lead the files that PyTorch and safetensors write by themselves to the scratch folder."""
    leads: dict[str, Callable[[Any], Any]] = {
        "save": functools.partial(files.for_writing, keeps=False),
        "load": files.for_reading,
    }
    for name, place in {"save": 1, "load": 0}.items():
        setattr(torch, name, _leading(getattr(torch, name), place, leads[name]))
    for name in ("save_file", "save_model"):
        write = getattr(safetensors.torch, name)
        setattr(safetensors.torch, name, _leading(write, 1, leads["save"]))


def _leading(
    original: Callable[..., Any], place: int, lead: Callable[[Any], Any]
) -> Callable[..., Any]:
    """Return a function whose argument at `place` is led to another path, where it is a path."""

    @functools.wraps(original)
    def act(*args: Any, **kwargs: Any) -> Any:
        given = list(args)
        if len(given) > place and isinstance(given[place], str | os.PathLike):
            given[place] = lead(given[place])
        for name in ("f", "filename"):
            if isinstance(kwargs.get(name), str | os.PathLike):
                kwargs[name] = lead(kwargs[name])
        return original(*given, **kwargs)

    return act
