"""Learns the invariants that come with mothtrap, and tests them on other programs.

They are learned from one run of every program in bench/healthy and of the healthy ones in
bench/faultbench, so only invariants of all of them are left. With `--check` nothing is
written: the same programs, with other seeds, and the repaired twins of bench/faultbench are
run with what is there, and whatever breaks an invariant is printed.

Run: python bench/invariants.py [--jobs 2]
     python bench/invariants.py --check [--seeds 1] [--jobs 2]
The exit code is 1 when a healthy run breaks an invariant.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

if __package__ in (None, ""):
    sys.path.insert(0, str(Path(__file__).parents[1]))

from bench.runs_of_programs import Outcome, Program, run_all
from mothtrap.core.config import Config
from mothtrap.core.findings import Finding
from mothtrap.core.invariants import find, text
from mothtrap.monitor.afterwards import judge_again
from mothtrap.monitor.catalogue import load_rules
from mothtrap.monitor.learning import learn, trainings_of
from mothtrap.reader.run import open_run

HERE = Path(__file__).parent
NAME = "pytorch"
RULE = "RUN904"


def healthy_programs(seed: int) -> list[Program]:
    """One run of every program that has no fault."""
    scripts = [
        *(HERE / "healthy").glob("[!_]*.py"),
        *(HERE / "faultbench" / "cases").glob("healthy_*.py"),
    ]
    return [Program(script=script, seed=seed) for script in sorted(scripts)]


def twins(seed: int) -> list[Program]:
    """One run of every program that has a fault, repaired."""
    scripts = sorted((HERE / "faultbench" / "cases").glob("[!_]*.py"))
    faulty = [script for script in scripts if not script.stem.startswith("healthy_")]
    return [Program(script=script, seed=seed, healthy=True) for script in faulty]


def learned(outcomes: Sequence[Outcome], runs_dir: Path) -> str:
    """The text of a file with the invariants of all these runs."""
    names = [outcome.program.name for outcome in outcomes]
    found = [trainings_of(open_run(name, runs_dir)) for name in names]
    long_enough = [name for name, trainings in zip(names, found, strict=True) if trainings]
    scripts = [name.rpartition("-")[0] for name in long_enough]
    return text(learn([training for trainings in found for training in trainings]), scripts)


def broken(run: str, runs_dir: Path) -> tuple[Finding, ...]:
    """Return the invariants shipped with mothtrap that a stored run breaks."""
    rules = load_rules(Config(select=(RULE,), invariants=NAME))
    return judge_again(open_run(run, runs_dir), rules).findings


def say(outcome: Outcome) -> None:
    """Print that a program was run, on stderr."""
    print(outcome.program.name, outcome.error, file=sys.stderr, flush=True)


def main() -> int:
    """Learn and write, or check."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--seeds", default="1")
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        runs_dir = Path(folder)
        if not options.check:
            outcomes = run_all(healthy_programs(0), runs_dir, options.jobs, say)
            sound = [outcome for outcome in outcomes if outcome.record]
            find(NAME).write_text(learned(sound, runs_dir), encoding="utf-8")
            return 0
        seeds = [int(seed) for seed in options.seeds.split(",")]
        programs = [p for seed in seeds for p in (*healthy_programs(seed), *twins(seed))]
        outcomes = run_all(programs, runs_dir, options.jobs, say)
        alarms = 0
        for outcome in (o for o in outcomes if o.record):
            for finding in broken(outcome.program.name, runs_dir):
                alarms += 1
                print(f"{outcome.program.name}: step {finding.step}: {finding.message}")
        print(f"{len(outcomes)} healthy runs, {alarms} of which break an invariant")
        return int(alarms > 0)


if __name__ == "__main__":
    sys.exit(main())
