"""Cost of evaluating stored runs: a cold command, a warm worker, and many runs on two processes.

The run is the demo's (230 steps of a network for handwritten digits, with its mistake), or the one
given with --run. Copies of it represent a sweep.

Wanted are at most `WARM_S` seconds of processor time for a run in a warm process, and `FASTER`
times the speed with two processes.

Run: python bench/analyzing.py [--run PATH] [--runs N]
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import mothtrap

DEMO = Path(__file__).parents[1] / "src" / "mothtrap" / "examples" / "digits.py"
WARM_S = 0.3
FASTER = 1.7
WARM_RUNS = 20


def main(words: Sequence[str] | None = None) -> dict[str, float]:
    """Measure, print, and return the figures by name."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--run", type=Path, help="a stored run [default: made with the demo]")
    parser.add_argument("--runs", type=int, default=200)
    arguments = parser.parse_args(words)
    print(f"{platform.platform()}, Python {platform.python_version()}, {os.cpu_count()} cores")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        first = arguments.run or demo(folder / "demo")
        runs = [copy(first, folder / "sweep" / f"run{number}") for number in range(arguments.runs)]
        found = {"cold command, s": cold(first)}
        warm, slowest = warm_s(runs[: WARM_RUNS + 1])
        found |= {"warm worker, s": warm, "slowest of them, s": slowest}
        for workers in (1, 2):
            found[f"{len(runs)} runs, {workers} processes, s"] = sweep_s(runs, workers)
    one, two = list(found.values())[-2:]
    found["times faster"] = one / two
    for what, value in found.items():
        print(f"{what:<32} {value:.2f}")
    print(f"wanted: warm at most {WARM_S} s, at least {FASTER} times faster with two processes")
    print(json.dumps(found))
    return found


def demo(runs_dir: Path) -> Path:
    """Train the demo's network with its mistake; return the run."""
    words = [sys.executable, "-m", "mothtrap", "run", "--runs-dir", str(runs_dir), "--name", "x"]
    subprocess.run([*words, str(DEMO)], check=True, capture_output=True)
    return runs_dir / "x"


def copy(run: Path, to: Path) -> Path:
    """Copy a run, without results of earlier evaluations."""
    shutil.copytree(run, to, ignore=shutil.ignore_patterns("analyses"))
    return to


def cold(run: Path) -> float:
    """Return the processor time of the command on one run, with its imports."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    words = [sys.executable, "-m", "mothtrap", "analyze", str(run), "--fail-on", "never"]
    subprocess.run(words, check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def warm_s(runs: Sequence[Path]) -> tuple[float, float]:
    """Return median and maximum of the processor time of each run but the first."""
    seconds = [verdict.seconds for verdict in mothtrap.analyze(runs)][1:]
    return statistics.median(seconds), max(seconds)


def sweep_s(runs: Sequence[Path], workers: int) -> float:
    """Return the wall time of all runs in a pool of processes, its start included."""
    began = time.perf_counter()
    verdicts = list(mothtrap.analyze(runs, "processes", workers=workers))
    assert len(verdicts) == len(runs)
    assert not any(verdict.error for verdict in verdicts), verdicts
    return time.perf_counter() - began


if __name__ == "__main__":
    main()
