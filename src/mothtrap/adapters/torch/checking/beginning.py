"""Start the check of a script in a process that has just imported PyTorch."""

from __future__ import annotations

import atexit
import functools
import os
import signal
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
from torch import nn

from mothtrap.adapters.torch.checking import engines
from mothtrap.adapters.torch.checking.engines import Engine, ForkEngine, RestartEngine
from mothtrap.adapters.torch.checking.first_steps import SeedsSeen, loops_seen, steps_of
from mothtrap.adapters.torch.checking.loader_sets import LoadersSeen
from mothtrap.adapters.torch.checking.part_alone import PartAlone
from mothtrap.adapters.torch.checking.recorded_step import RecordedStep
from mothtrap.adapters.torch.checking.recording import Recording
from mothtrap.adapters.torch.checking.scaled_losses import ScaledLosses
from mothtrap.adapters.torch.checking.shortened import Shortened
from mothtrap.adapters.torch.checking.switch import Switch
from mothtrap.adapters.torch.job import copies
from mothtrap.adapters.torch.job.copies import GoOn
from mothtrap.adapters.torch.replaying.interception import Interception
from mothtrap.checks.check import Check, result_of
from mothtrap.checks.limit import TooLong, limited
from mothtrap.checks.part_seen import PartSeen
from mothtrap.checks.restarts import Command, Restarts
from mothtrap.checks.starts import LoopsSeen, Starts
from mothtrap.checks.subject import Source, Subject
from mothtrap.core.check_plan import CheckPlan, Files
from mothtrap.core.error_texts import in_one_line
from mothtrap.core.facts.checks import CheckResult
from mothtrap.core.jsonable import decode, encode

WATCHED_SHARE, LAST_SHARE, FIRST_TURN_SHARE = 0.5, 0.75, 0.9
"""Limits on the observation, from the import of PyTorch on. After the first share of the time, no
further step begins. After the second share, the script is interrupted wherever it is, and after the
last limit, if it is still in its first step. Chosen by hand.
"""
CLOSING_SHARE = 0.05
"""Share of the budget for storing and printing the results; chosen by hand."""
CHECK_SHARE = 2 / 3
"""Share of the remaining time that a check may use if others follow; chosen by hand."""
PART_SHARE = 0.5
"""Share of the remaining time for running one part of the script alone; chosen by hand."""
SPARE_S = 0.5
"""Minimum time for a check; chosen by hand."""

Finish = Callable[[Sequence[CheckResult], str], object]
"""Function that receives the results, and the reason if time ended before the first step."""


class Checking:
    """Observes the first steps of the script, runs the checks, and ends the process.

    Args:
        plan: settings of the check.
        checks: checks to run, in this order.
        finish: receives the results, and ends the process.
        leave: called in a copy of the process, so that the copy records nothing.
        pause: stops recording in this process, because the calls of checks do not belong to the
            script.
    """

    def __init__(
        self,
        plan: CheckPlan,
        checks: Sequence[Check],
        finish: Finish,
        leave: Callable[[], object],
        pause: Callable[[], object],
    ) -> None:
        self._plan, self._checks, self._finish = plan, checks, finish
        self._part: PartAlone | None = None
        self._part_seen: PartSeen | None = None
        self._leave, self._pause = leave, pause
        self._command = Command()
        self._began = time.monotonic()
        used = time.time() - plan.began_s
        self._deadline = self._began + plan.budget_s * (1 - CLOSING_SHARE) - used
        self._switch = Switch()
        self._scaled = ScaledLosses()
        self._recording = Recording(plan.steps, self._hold, self._scaled)
        self._switch.player = self._recording
        self._shortened = Shortened(plan)
        self._loaded = False
        self._loaders = LoadersSeen()
        self._seeds = SeedsSeen()
        self._loops = LoopsSeen()
        self._pid = os.getpid()
        self._missing: dict[Source, str] = {}

    def install(self) -> None:
        """Wrap the calls of the script."""
        self._loaders.install()
        self._seeds.install()
        self._scaled.install()
        Interception(self._switch, follows=True)
        self._shortened.install()
        setattr(nn.Module, "load_state_dict", self._noticed(nn.Module.load_state_dict))  # noqa: B010
        atexit.register(self._script_ended)
        signal.signal(signal.SIGALRM, lambda *_: self._clock_rings())
        signal.setitimer(signal.ITIMER_REAL, self._seconds(WATCHED_SHARE))

    def _seconds(self, share: float) -> float:
        """Return how many seconds after the import of PyTorch a share of the time has passed."""
        return max(SPARE_S, share * (self._deadline - self._began))

    def _clock_rings(self) -> None:
        """Make the iteration in progress the last one; interrupt it if it takes too long."""
        if self._part is not None:
            self._part_ended("it did not end in its share of the time")
            return
        passed = time.monotonic() - self._began
        share = LAST_SHARE if self._recording.turns else FIRST_TURN_SHARE
        left = self._seconds(share) - passed
        if left > 0 and not self._recording.ends_soon:
            self._recording.ends_soon = True
            signal.setitimer(signal.ITIMER_REAL, left)
            return
        self._recording.finish()
        budget = self._plan.budget_s
        used = budget * (1 - CLOSING_SHARE) - (self._deadline - self._began) + passed
        why = f"the script completed {self._recording.turns} steps in {used:.0f} of {budget:.0f} s"
        self._end_early(f"{why}; use a larger --budget", in_time=False)

    def _noticed(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def load(*args: Any, **kwargs: Any) -> Any:
            self._loaded = self._loaded or not self._recording.gradients
            return original(*args, **kwargs)

        return load

    def _script_ended(self) -> None:
        if os.getpid() != self._pid:
            return
        if self._part is not None:
            self._part_ended()
        self._end_early(f"the script ended after {self._recording.turns} steps")

    def _end_early(self, why: str, *, in_time: bool = True) -> None:
        """Run the checks that need no further step of the script."""
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        self._recording.finish()
        if self._recording.turns:
            self._missing["trials"] = why
            self._hold()
        else:
            results = [self._unmade(check, why) for check in self._checks]
            self._finish(results, "" if in_time else why)

    def _hold(self) -> None:
        """Run the checks, and end the process; first, run the requested part alone.

        Raises:
            GoOn: the script continues with this part alone.
        """
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        self._loops = loops_seen(self._recording)
        self._seeds.over = True
        alone = self._plan.part in ("data", "callbacks")
        if alone and self._part is None and "trials" not in self._missing:
            self._begin_part()
            raise GoOn
        why = "" if self._plan.restarts else engines.why_no_copy()
        if lacking := self._shortened.why_not():
            self._finish([self._unmade(one, lacking) for one in self._checks], "")
        elif not why and not self._plan.restarts:
            waiting = len(self._checks)
            made = [self._copied(one, waiting - n) for n, one in enumerate(self._checks)]
            self._finish(made, "")
        elif lacking := engines.why_no_restart(self._command, self._recording):
            reason = "; ".join(filter(None, (why, lacking)))
            self._finish([self._unmade(one, reason) for one in self._checks], "")
        else:
            self._finish(self._with_restarts(), "")

    def _begin_part(self) -> None:
        """Start running one part of the script alone."""
        assert self._plan.part is not None
        self._pause()
        files = Path(self._plan.scratch) / "files"
        self._part = PartAlone(
            self._plan.part,
            self._recording,
            self._plan.steps,
            self._part_ended,
            lambda: [one.name for one in sorted(files.rglob("*")) if one.is_file()],
        )
        self._part.begin()
        self._switch.player = self._part
        left = self._deadline - time.monotonic()
        signal.setitimer(signal.ITIMER_REAL, max(SPARE_S, PART_SHARE * left))

    def _part_ended(self, why: str = "") -> None:
        """Run the checks that belong to the part."""
        assert self._part is not None
        self._part_seen = self._part.seen(why)
        self._hold()

    def _with_restarts(self) -> list[CheckResult]:
        """Run the checks in this process, with trials that restart the script."""
        self._pause()
        engine = RestartEngine(self._plan, self._command, self._recording, self._deadline)
        if engines.rank():
            engine.serve()
            return []
        waiting = len(self._checks)
        made = [self._here(one, waiting - n, engine) for n, one in enumerate(self._checks)]
        engine.end()
        return made

    def _left(self, waiting: int) -> float:
        """Return the seconds for a check; `waiting` counts this check and the remaining ones."""
        return (self._deadline - time.monotonic()) * (CHECK_SHARE if waiting > 1 else 1.0)

    def _here(self, check: Check, waiting: int, engine: RestartEngine) -> CheckResult:
        """Run a check in this process."""
        left = self._left(waiting)
        if left < SPARE_S:
            return self._unmade(
                check,
                f"the budget of {self._plan.budget_s:.0f} s was used up: raise it with --budget",
            )
        try:
            with limited(left):
                return self._result(check, time.monotonic() + left, engine)
        except TooLong:
            return self._unmade(check, f"the check did not end within {left:.0f} s")

    def _copied(self, check: Check, waiting: int) -> CheckResult:
        """Run a check in a copy of the process."""
        left = self._left(waiting)
        if left < SPARE_S:
            return self._unmade(
                check,
                f"the budget of {self._plan.budget_s:.0f} s was used up: raise it with --budget",
            )
        pid, pipe = copies.copy_process(leads_group=True)
        if pid == 0:
            self._report(check, pipe, time.monotonic() + left)
        data, in_time = copies.result_of(pid, pipe, left, group=True)
        if not in_time:
            return self._unmade(check, f"the check did not end within {left:.0f} s")
        if not data:
            return self._unmade(check, "the process that ran the check crashed")
        return decode(data, CheckResult)

    def _report(self, check: Check, pipe: int, deadline: float) -> None:
        """Run one check in a copy of the process, write its result, and end the copy."""
        self._leave()
        result = self._result(check, deadline, ForkEngine(self._recording, self._switch))
        with os.fdopen(pipe, "wb") as file:
            file.write(encode(result))
        os._exit(0)

    def _result(self, check: Check, deadline: float, engine: Engine) -> CheckResult:
        try:
            return result_of(check, self._subject(check, deadline, engine), self._recording.turns)
        except Exception as err:  # the process must not continue with the script
            return self._unmade(check, f"the check failed: {in_one_line(err)}")

    def _subject(self, check: Check, deadline: float, engine: Engine) -> Subject:
        free = self._plan.part == "loss"
        step = RecordedStep(self._recording, engine, loaded=self._loaded, free=free)
        # Reading a sample of a dataset may take long, so it is done only if the check needs it.
        sets = self._loaders.sets(self._recording) if "datasets" in check.uses else ()
        missing = dict(self._missing)
        if not sets:
            missing["datasets"] = "the script does not read a dataset through a DataLoader"
        task = "" if step.loss is None else step.loss.task
        restarts = Restarts(self._plan, self._command, deadline - SPARE_S)
        command = self._plan.resume_command
        return Subject(
            recorded=step,
            datasets=sets,
            task=task,
            missing=missing,
            deadline=deadline,
            part=self._part_seen,
            sources=self._loaders.sources(self._recording),
            resume=(lambda: restarts.resumed(command)) if command else None,
            starts=None if engines.ranks() > 1 else lambda: self._starts(restarts),
            loops=self._loops,
            asks=self._plan.asks,
        )

    def _starts(self, restarts: Restarts) -> Starts:
        """Return the first steps of this start and of a second start; see `restarts.seen`."""
        second = restarts.seen(self._recording.turns)
        first = steps_of(self._recording)
        return Starts(first=first, second=second, seeded=self._seeds.seeded)

    def _unmade(self, check: Check, why: str) -> CheckResult:
        return CheckResult(
            step=self._recording.turns, code=check.code, state="not_enough_data", reason=why
        )


def begin(
    plan: CheckPlan,
    checks: Sequence[Check],
    finish: Finish,
    leave: Callable[[], object],
    pause: Callable[[], object],
    files: Files | None,
) -> None:
    """Check the script that is about to run in this process."""
    if files is not None:
        lead_writes(files)
    Checking(plan, checks, finish, leave, pause).install()


def lead_writes(files: Files) -> None:
    """Redirect files that PyTorch and safetensors write to the scratch folder."""
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
    """Return a function that redirects the path passed to it as the argument at `place`, if any."""

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
