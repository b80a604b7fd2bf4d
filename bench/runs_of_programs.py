"""Runs small programs under mothtrap and stores the verdicts."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

TIMEOUT_S = 300
PYTHON = sys.executable
WARNING_OR_WORSE = ("error", "warning")


@dataclass(frozen=True, kw_only=True)
class Program:
    """One run: a script with a seed, with its fault or as its repaired twin.

    `command` contains the words between `mothtrap` and the script, and `codes` the exit codes of a
    run that can be evaluated. `options` are further arguments of the script.
    """

    script: Path
    seed: int
    healthy: bool = False
    command: tuple[str, ...] = ("run",)
    codes: tuple[int, ...] = (0,)
    options: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The name of the run, and of its folder."""
        end = "-healthy" if self.healthy else "".join(self.options).replace("--", "-")
        return f"{self.script.stem}-{self.seed}{end}"

    @property
    def arguments(self) -> list[str]:
        """Return the arguments of `mothtrap run`."""
        chosen = [*self.options, *["--healthy"] * self.healthy]
        return [str(self.script), "--seed", str(self.seed), *chosen]


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """Outcome of a program under mothtrap; `error` is the reason why there is no verdict.

    `printed` is the standard output of the script.
    """

    program: Program
    record: dict
    error: str = ""
    printed: str = ""

    def findings(self, *severities: str) -> list[dict]:
        """Findings of these severities, the worst and earliest first."""
        return [f for f in self.record.get("findings", []) if f["severity"] in severities]

    @property
    def roots(self) -> list[dict]:
        """Findings of warning or worse that follow from no other."""
        return [f for f in self.findings(*WARNING_OR_WORSE) if not f["caused_by"]]


def run_all(
    programs: Sequence[Program], runs_dir: Path, jobs: int, tell: Callable[[Outcome], None]
) -> list[Outcome]:
    """Run programs, `jobs` at a time; outcomes in the order of the programs.

    Args:
        programs: programs to run.
        runs_dir: where the runs are stored.
        jobs: how many at a time.
        tell: called with each outcome, in order.
    """
    outcomes = []
    with ThreadPoolExecutor(jobs) as pool:
        for outcome in pool.map(lambda program: run(program, runs_dir), programs):
            tell(outcome)
            outcomes.append(outcome)
    return outcomes


def run(program: Program, runs_dir: Path) -> Outcome:
    """Run one program, without any configuration file, and read the verdict."""
    runs_dir.mkdir(parents=True, exist_ok=True)
    run_options = ["--runs-dir", str(runs_dir), "--name", program.name]
    first, *more = program.command
    done = _mothtrap([first, *run_options, *more, *program.arguments], runs_dir)
    if done.returncode not in program.codes:
        return Outcome(
            program=program, record={}, error=f"exit code {done.returncode}: {done.stderr[-800:]}"
        )
    shown = _mothtrap(["show", str(runs_dir / program.name), "--format", "json", "--all"], runs_dir)
    if shown.returncode:
        return Outcome(program=program, record={}, error=shown.stderr[-800:])
    record = json.loads(shown.stdout)
    trouble = [f"{e['part']}: {e['error']}" for e in record.get("tool_errors", [])]
    return Outcome(program=program, record=record, error="; ".join(trouble), printed=done.stdout)


def _mothtrap(words: Iterable[str], cwd: Path) -> subprocess.CompletedProcess[str]:
    kept = {k: v for k, v in os.environ.items() if not k.startswith("MOTHTRAP_")}
    return subprocess.run(
        [PYTHON, "-m", "mothtrap", *words],
        cwd=cwd,
        env=kept,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
