"""Faults that `mothtrap check` names before the long run, and its findings on healthy programs.

A fault is named if a finding of any severity bears a name that `checking/expected.json` accepts.
A false alarm is an error on a repaired twin or on a program without a fault.

Run: python bench/checks.py [--only NAME,...] [--seeds 0] [--budget 60] [--select CODES]
     python bench/checks.py --healthy    # programs of bench/healthy, and twins of bench/faultbench
The exit code is 1 if more than two faults are not named, for a false alarm, and if more than 3 % of
the healthy programs have a warning.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

if __package__ in (None, ""):
    sys.path.insert(0, str(Path(__file__).parents[1]))

from bench.faults import HEALTHY, HERE, say_progress
from bench.runs_of_programs import WARNING_OR_WORSE, Outcome, Program, run_all

CASES = HERE / "checking"
RESUMES = "scheduler_not_saved"
"""The program that is also started again from its checkpoint."""
RESUME_S = 40.0
"""Additional seconds for that program, because the check starts it twice more."""
MAY_BE_SILENT = 2
WARNED_SHARE = 0.03
EXIT_CODES = (0, 1, 2)


def program(script: Path, seed: int, arguments: argparse.Namespace, *, healthy: bool) -> Program:
    """Return one check to run."""
    resumes = script.stem == RESUMES
    command = ["check", "--budget", str(arguments.budget + (RESUME_S if resumes else 0))]
    if arguments.select:
        command += ["--select", arguments.select]
    if resumes:
        words = [sys.executable, str(script), "--seed", str(seed), *["--healthy"] * healthy]
        command += ["--resume-command", " ".join([*words, "--resume", "last.pt"])]
    return Program(
        script=script, seed=seed, healthy=healthy, command=tuple(command), codes=EXIT_CODES
    )


def planned(arguments: argparse.Namespace) -> tuple[list[Program], dict[str, list[str]]]:
    """Return the checks to make, and the names that are accepted for each fault."""
    if arguments.healthy:
        sound = [(one, False) for one in sorted(HEALTHY.glob("[!_]*.py"))]
        for folder in (HERE / "faultbench" / "cases", HERE / "faultbench" / "more"):
            for one in sorted(folder.glob("[!_]*.py")):
                sound.append((one, not one.stem.startswith("healthy")))
        wanted, expected = sound, {}
    else:
        expected = json.loads((CASES / "expected.json").read_text(encoding="utf-8"))
        wanted = [
            (CASES / f"{name}.py", healthy)
            for name, accepted in expected.items()
            for healthy in ((False, True) if accepted and not arguments.no_twins else (False,))
        ]
    only = set(filter(None, arguments.only.split(",")))
    chosen = [(script, healthy) for script, healthy in wanted if not only or script.stem in only]
    seeds = [int(seed) for seed in arguments.seeds.split(",")]
    return [
        program(script.resolve(), seed, arguments, healthy=healthy)
        for seed in seeds
        for script, healthy in chosen
    ], expected


def totals(outcomes: Sequence[Outcome], expected: dict[str, list[str]]) -> tuple[list[str], bool]:
    """Return the results in words, and whether every target is met."""
    lines = [f"BROKEN {one.program.name}: {one.error}" for one in outcomes if one.error]
    faulty, sound = [], []
    for one in outcomes:
        fault = bool(expected.get(one.program.script.stem)) and not one.program.healthy
        (faulty if fault else sound).append(one)
    silent = [one for one in faulty if not is_named(one, expected[one.program.script.stem])]
    errors = [one for one in sound if one.findings("error")]
    warned = [one for one in sound if one.findings("warning")]
    lines += [f"not named: {one.program.name}: {_found(one)}" for one in silent]
    lines += [f"false alarm: {one.program.name}: {_found(one)}" for one in (*errors, *warned)]
    lines.append(
        f"named {len(faulty) - len(silent)} of {len(faulty)} faults; of {len(sound)} healthy "
        f"programs {len(errors)} have an error and {len(warned)} a warning"
    )
    met = len(silent) <= MAY_BE_SILENT and not errors and len(warned) <= WARNED_SHARE * len(sound)
    return lines, met and not any(one.error for one in outcomes)


def is_named(outcome: Outcome, accepted: Sequence[str]) -> bool:
    """Return whether a finding bears an accepted name."""
    return any(found["name"] in accepted for found in outcome.findings("error", "warning", "info"))


def _found(outcome: Outcome) -> str:
    told = [f"{f['name']}: {f['message']}" for f in outcome.findings(*WARNING_OR_WORSE)]
    return "; ".join(told) or "nothing"


def main() -> None:
    """Check the programs, and print the findings."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="names of programs")
    parser.add_argument("--seeds", default="0")
    parser.add_argument("--budget", type=float, default=60.0)
    parser.add_argument("--select", default="", help="codes of rules and checks; default all")
    parser.add_argument("--no-twins", action="store_true", help="only the programs as they are")
    parser.add_argument("--healthy", action="store_true", help="healthy programs of other benches")
    arguments = parser.parse_args()
    programs, expected = planned(arguments)
    with tempfile.TemporaryDirectory() as folder:
        outcomes = run_all(programs, Path(folder), 1, tell=say_progress)
    lines, met = totals(outcomes, expected)
    print("\n".join(lines))
    raise SystemExit(0 if met else 1)


if __name__ == "__main__":
    main()
