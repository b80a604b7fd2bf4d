"""Planted hangs on real gloo jobs: is the stuck worker named, with its line, and how soon?

Each job hangs at a known place (a line with the comment HERE, or a collective that one rank
leaves out), or is slow and healthy. The programs write down when they made their last step. A
hang counts as named if DST954 is in the run within `WITHIN_S` of the limit, with the right rank
and, where there is one, the right line. Healthy jobs must have no finding.

Run: python bench/hangs.py [--only CASE]
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import mothtrap
from mothtrap.core.findings import Finding
from mothtrap.session.stall_observer import LEAST_S

JOB = Path(__file__).parent / "hanging" / "job.py"
WITHIN_S = 10.0
GIVE_UP_S = 240.0
LINES = [number for number, text in enumerate(JOB.read_text().splitlines(), 1) if "# HERE" in text]


class Case(NamedTuple):
    """A job: the event, the number of ranks, and the expected location."""

    name: str
    ranks: int
    seed: int

    @property
    def is_healthy(self) -> bool:
        return self.name.startswith("healthy")

    @property
    def odd(self) -> int:
        return self.seed % self.ranks


HANGS = [
    Case(name, ranks, seed)
    for seed, ranks in enumerate((2, 3, 4))
    for name in (
        *("slow_loader_hangs", "barrier_in_condition", "lock"),
        *("exception_kept", "last_batch_lacks", "missing_collective"),
    )
] + [Case("two_groups", 2, 0), Case("last_batch_lacks_ddp", 8, 5)]
HEALTHY = [
    *(Case("healthy_slow_loader", 2, 0), Case("healthy_evaluation", 2, 0)),
    *(Case("healthy_checkpoint", 2, 0), Case("healthy_long_steps", 2, 1)),
    *(Case("healthy_evaluation", 4, 2), Case("healthy_gathers", 2, 0)),
]


class Outcome(NamedTuple):
    """Result of one case.

    `is_named`: the right worker and line, or no finding in a healthy job. `after_s`: seconds from
    the last step of any process to the finding.
    """

    case: Case
    is_named: bool
    after_s: float
    message: str

    @property
    def is_right(self) -> bool:
        """Return whether the result is right and in time."""
        return self.is_named and (self.case.is_healthy or self.after_s <= LEAST_S + WITHIN_S)


def main(words: Sequence[str] | None = None) -> list[Outcome]:
    """Run the cases, print a line for each, and return the outcomes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="cases whose name begins so")
    arguments = parser.parse_args(words)
    cases = [case for case in (*HANGS, *HEALTHY) if case.name.startswith(arguments.only)]
    outcomes = []
    for case in cases:
        outcome = run(case)
        outcomes.append(outcome)
        word = "right" if outcome.is_right else "WRONG"
        print(f"{word} {case.name} {case.ranks} {case.seed}: {outcome.after_s:.1f} s: "
              f"{outcome.message}", flush=True)  # fmt: skip
    hangs = [outcome for outcome in outcomes if not outcome.case.is_healthy]
    healthy = [outcome for outcome in outcomes if outcome.case.is_healthy]
    print(f"hangs named: {sum(o.is_right for o in hangs)} of {len(hangs)}")
    print(f"healthy jobs without a finding: {sum(o.is_right for o in healthy)} of {len(healthy)}")
    return outcomes


def run(case: Case) -> Outcome:
    """Run one job until its hang is named, it has ended, or the time is up."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        command = [sys.executable, "-m", "mothtrap", "run", "--runs-dir", name, "--name", "x", "-q"]
        job = subprocess.Popen(
            [*command, str(JOB), case.name, str(case.ranks), str(case.seed)],
            cwd=folder,
            env={**os.environ, "STALLS": name},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            return _watched(case, folder, job)
        finally:
            if job.poll() is None:
                os.killpg(job.pid, signal.SIGKILL)
            job.wait()


def _watched(case: Case, folder: Path, job: subprocess.Popen[bytes]) -> Outcome:
    began_s = time.time()
    finding = None
    while finding is None and job.poll() is None and time.time() - began_s < GIVE_UP_S:
        time.sleep(0.5)
        finding = _finding(folder / "x")
    marks = [float(p.read_text() or 0) for p in folder.glob("[0-9]")]
    written = [p.stat().st_mtime for p in folder.glob("x/1/m*/findings-*.arrow")]
    after_s = max(written, default=time.time()) - max(marks, default=began_s)
    finding = finding or _finding(folder / "x")
    if case.is_healthy:
        is_named = finding is None and job.poll() == 0
        return Outcome(case, is_named, after_s, finding.message if finding else "no finding")
    if finding is None:
        return Outcome(case, False, after_s, f"no finding (exit code {job.poll()})")
    return Outcome(
        case, _is_right(case, finding), after_s, f"{finding.message} [{finding.location}]"
    )


def _finding(run: Path) -> Finding | None:
    if not run.exists():
        return None
    opened = mothtrap.open_run(run)
    return next((f for f in opened.findings if f.code == "DST954"), None)


def _is_right(case: Case, finding: Finding) -> bool:
    if case.name == "two_groups":
        return len(finding.workers) == case.ranks and _line(finding) in LINES
    if case.name == "barrier_in_condition" and case.ranks == 2:  # there is no majority: both
        lines = [f"{JOB}:{line}" for line in LINES]
        return len(finding.workers) == 2 and any(line in finding.message for line in lines)
    if case.name == "missing_collective":  # there is no line: the call is not there
        return finding.workers == (case.odd,)
    return finding.workers == (case.odd,) and _line(finding) in LINES


def _line(finding: Finding) -> int:
    return int((finding.location or ":0").rpartition(":")[2])


if __name__ == "__main__":
    found = main()
    sys.exit(not all(outcome.is_right for outcome in found))
