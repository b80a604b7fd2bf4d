"""Start the script of this process again with other orders, and wait for its end."""

from __future__ import annotations

import multiprocessing
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from mothtrap.checks.resumed import Resumed, StepState
from mothtrap.checks.starts import StartSeen
from mothtrap.core.check_plan import CHECK_VARIABLE, CheckPlan, RepeatOrder, ResumeOrder
from mothtrap.core.errors import NotApplicable, NotEnoughData


@dataclass(frozen=True, slots=True)
class Command:
    """Command that started this process; created before the script runs."""

    words: tuple[str, ...] = field(default_factory=lambda: (sys.executable, *sys.orig_argv[1:]))
    folder: str = field(default_factory=os.getcwd)
    environ: dict[str, str] = field(default_factory=lambda: dict(os.environ))

    def why_not_again(self) -> str:
        """Return why the process cannot be started a second time; '' if it can."""
        if multiprocessing.parent_process() is not None:
            return "a process that the script itself started cannot be started again"
        if self.words[1:2] in ((), ("-",)):
            return "a script from standard input or a prompt cannot be started again"
        return ""


class Restarts:
    """Starts the script of this process again.

    Args:
        plan: Plan of this process.
        command: Command that starts the script.
        deadline: Monotonic time in seconds by which every start must have ended.
    """

    def __init__(self, plan: CheckPlan, command: Command, deadline: float) -> None:
        self._plan, self._command, self._deadline = plan, command, deadline

    @property
    def left_s(self) -> float:
        """Seconds until the deadline."""
        return self._deadline - time.monotonic()

    def run(
        self,
        folder: Path,
        plan: CheckPlan,
        seconds: float,
        *,
        words: tuple[str, ...] | None = None,
        environ: Mapping[str, str] | None = None,
    ) -> bool:
        """Start the script, wait for its end, and return whether it ended in time.

        Args:
            folder: Folder to write the plan to.
            plan: Plan for the script.
            seconds: Time after which the script is stopped.
            words: Arguments of the command; None = the command that started this process.
            environ: further environment variables.
        """
        write_whole(folder / "plan.json", msgspec.json.encode(plan))
        return self.follow(folder, seconds, words=words, environ=environ)

    def follow(
        self,
        folder: Path,
        seconds: float,
        *,
        words: tuple[str, ...] | None = None,
        environ: Mapping[str, str] | None = None,
    ) -> bool:
        """Start the script with the plan stored in a folder; see `run`."""
        ours = {CHECK_VARIABLE: str(folder / "plan.json")}
        process = subprocess.Popen(
            words or self._command.words,
            cwd=self._command.folder,
            env={**self._command.environ, **ours, **(environ or {})},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            process.wait(max(0.0, seconds))
        except subprocess.TimeoutExpired:
            return False
        finally:
            _end(process)
        return True

    def seen(self, steps: int) -> StartSeen:
        """Start the script once more, and return its first steps.

        The first call starts it; further calls, also in copies of the process, read the result.

        Args:
            steps: Number of steps after which the second start ends.

        Raises:
            NotApplicable: the script cannot be started again.
            NotEnoughData: the script did not reach these steps before the deadline.
        """
        if why := self._command.why_not_again():
            raise NotApplicable(why)
        folder = Path(self._plan.scratch) / "again"
        results, late = folder / "results", folder / "late"
        if not folder.exists():
            folder.mkdir()
            seconds = self.left_s
            order = RepeatOrder(results=str(results))
            plan = self._ordered(folder, seconds, steps=steps, repeat=order)
            if not self.run(folder, plan, seconds):
                late.write_text(f"did not reach step {steps} within {seconds:.0f} s", "utf-8")
        if late.exists() and not results.exists():
            why = late.read_text("utf-8")
            raise NotEnoughData(f"the second start of the script {why}; use a larger --budget")
        if not results.exists():
            raise NotEnoughData("the script did not reach the step when it was started again")
        return msgspec.json.decode(results.read_bytes(), type=StartSeen)

    def resumed(self, command: str) -> Resumed:
        """Run the script until it writes a checkpoint, then run the command that resumes it.

        Args:
            command: Shell command that resumes training.

        Raises:
            NotEnoughData: one of the two processes wrote no result in time.
        """
        words = shlex.split(command)
        if words and words[0] in ("python", "python3"):
            words[0] = sys.executable
        elif words and words[0].endswith(".py"):
            words.insert(0, sys.executable)
        folder = Path(self._plan.scratch) / "resume"
        folder.mkdir(exist_ok=True)
        before = self._state(folder, "before", self.left_s / 2, None)
        if before is None:
            raise NotEnoughData("the script wrote no checkpoint in the time allowed")
        after = self._state(folder, "after", self.left_s, tuple(words))
        if after is None:
            raise NotEnoughData("the resumed script took no training step in the time allowed")
        return Resumed(before=before, after=after)

    def _state(
        self, folder: Path, name: str, seconds: float, words: tuple[str, ...] | None
    ) -> StepState | None:
        """Start a script with the command `words`, and return the state that it writes."""
        results = folder / name
        order = ResumeOrder(results=str(results), resumes=words is not None)
        self.run(folder, self._ordered(folder, seconds, resume=order), seconds, words=words)
        if not results.exists():
            return None
        return msgspec.json.decode(results.read_bytes(), type=StepState)

    def _ordered(self, folder: Path, seconds: float, **orders: Any) -> CheckPlan:
        return msgspec.structs.replace(
            self._plan, budget_s=seconds, began_s=time.time(), scratch=str(folder), **orders
        )


def write_whole(file: Path, content: bytes) -> None:
    """Write a file atomically: other processes see the whole file or none."""
    unfinished = file.with_suffix(".unfinished")
    unfinished.write_bytes(content)
    unfinished.replace(file)


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a process with all that it has started."""
    if hasattr(os, "killpg"):
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
    process.kill()
    process.wait()
