"""Measure which faults are named, and which healthy programs have findings.

Each case is a small training program with one fault; with `--healthy` it is repaired. A fault is
named if a root finding of severity warning or error comes from one of the rules in `expected.json`,
and seen if there is any finding of severity warning or error. `fixes.json`, if a folder has it,
contains the beginning of the first fix of that finding. A false alarm is an error on a repaired
twin or on a program without a fault.

Run: python bench/faults.py [--cases DIR] [--seeds 0,1,2] [--only NAME,...] [--jobs 2]
     python bench/faults.py --healthy [--seeds 0,1,2]
The exit code is 1 when a target is missed.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

if __package__ in (None, ""):
    sys.path.insert(0, str(Path(__file__).parents[1]))

from bench.runs_of_programs import WARNING_OR_WORSE, Outcome, Program, run_all

HERE = Path(__file__).parent
CASES = HERE / "faultbench"
HEALTHY = HERE / "healthy"
NAMED_SHARE = 44 / 48
SEEN_SHARE = 47 / 48
WARNINGS_PER_RUN = 7 / 75


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """Verdict on one case and seed; `twin` is None for a program without a fault.

    `fix` is how the first fix of the finding that names the fault must begin.
    """

    name: str
    seed: int
    faulty: Outcome
    twin: Outcome | None
    accepted: tuple[str, ...]
    fix: str = ""

    @property
    def naming(self) -> dict | None:
        """The root finding that names the fault."""
        return next((f for f in self.faulty.roots if f["name"] in self.accepted), None)

    @property
    def told_fix(self) -> str:
        """The first fix of the finding that names the fault; '' without one."""
        fixes = self.naming["fixes"] if self.naming is not None else ()
        return str(fixes[0]) if fixes else ""

    @property
    def is_fix_right(self) -> bool:
        """Return whether the fault is named with its fix."""
        return self.naming is not None and self.told_fix.startswith(self.fix)

    @property
    def seen(self) -> bool:
        """Return whether any warning or error was found."""
        return bool(self.faulty.findings(*WARNING_OR_WORSE))

    @property
    def alarms(self) -> list[dict]:
        """Errors where there is no fault."""
        healthy = self.twin if self.twin is not None else self.faulty
        return healthy.findings("error")

    @property
    def broken(self) -> str:
        """Reason why this cannot be evaluated; '' if it can."""
        return self.faulty.error or (self.twin.error if self.twin is not None else "")


def verdicts(
    folder: Path, seeds: Sequence[int], only: Sequence[str], runs_dir: Path, jobs: int
) -> list[Verdict]:
    """Run the cases of a folder, each with its twin."""
    expected = json.loads((folder / "expected.json").read_text(encoding="utf-8"))
    fixes = first_fixes(folder)
    scripts = folder / "cases" if (folder / "cases").is_dir() else folder
    names = [name for name in sorted(expected) if not only or name in only]
    programs = [
        Program(script=scripts.resolve() / f"{name}.py", seed=seed, healthy=healthy)
        for name in names
        for seed in seeds
        for healthy in ((False, True) if expected[name] else (False,))
    ]
    outcomes = {o.program.name: o for o in run_all(programs, runs_dir, jobs, tell=say_progress)}
    return [
        Verdict(
            name=name,
            seed=seed,
            faulty=outcomes[f"{name}-{seed}"],
            twin=outcomes.get(f"{name}-{seed}-healthy"),
            accepted=tuple(expected[name]),
            fix=fixes.get(name, ""),
        )
        for name in names
        for seed in seeds
    ]


def first_fixes(folder: Path) -> dict[str, str]:
    """Return the beginning of the first fix of each case; empty for a folder without it."""
    file = folder / "fixes.json"
    return json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}


def say_progress(outcome: Outcome) -> None:
    """Print what was found in one run, on stderr."""
    found = [
        f"{f['severity'][0].upper()}:{f['name']}@{f['step']}{'<' * bool(f['caused_by'])}"
        for f in outcome.findings(*WARNING_OR_WORSE)
    ]
    trouble = f"  !! {outcome.error}" if outcome.error else ""
    print(
        f"{outcome.program.name:45} {' '.join(found) or '-'}{trouble}", file=sys.stderr, flush=True
    )


def table(found: Sequence[Verdict]) -> str:
    """The table of cases, as Markdown."""
    rows = ["| case | named | seen | false alarms | rule | severity | step | delay | fix |"]
    rows.append("|---|---|---|---|---|---|---|---|---|")
    for name in dict.fromkeys(v.name for v in found):
        rows.append(_row(name, [v for v in found if v.name == name]))
    return "\n".join(rows)


def _row(name: str, cases: Sequence[Verdict]) -> str:
    runs = len(cases)
    alarms = sum(bool(v.alarms) for v in cases)
    if not cases[0].accepted:
        return f"| {name} | | | {alarms}/{runs} | {_names(cases)} | | | | |"
    named = [v.naming for v in cases if v.naming is not None]
    seen = sum(v.seen for v in cases)
    rules = ", ".join(sorted({f["name"] for f in named})) or f"({_names(cases)})"
    severities = ", ".join(sorted({f["severity"] for f in named}))
    steps = ", ".join(str(step) for step in sorted({f["step"] for f in named}))
    waits = statistics.median(delay(f) for f in named) if named else math.nan
    fixes = " / ".join(dict.fromkeys(v.told_fix for v in cases if v.told_fix))
    return (
        f"| {name} | {len(named)}/{runs} | {seen}/{runs} | {alarms}/{runs} | {rules} "
        f"| {severities} | {steps} | {'' if math.isnan(waits) else f'{waits:g}'} | {fixes} |"
    )


def _names(cases: Sequence[Verdict]) -> str:
    """Roots that name no fault, for the cases that were not named."""
    roots = (f["name"] for v in cases if v.naming is None for f in v.faulty.roots)
    return ", ".join(dict.fromkeys(roots)) or "nothing"


def delay(finding: dict) -> int:
    """Steps between the onset of a fault and its finding."""
    return int(finding["detected_step"]) - int(finding["step"])


def totals(found: Sequence[Verdict]) -> tuple[str, bool]:
    """The totals in words, and whether every target is met."""
    faults = [v for v in found if v.accepted]
    named = [v for v in faults if v.naming is not None]
    seen = sum(v.seen for v in faults)
    alarms = sum(bool(v.alarms) for v in found)
    broken = [v for v in found if v.broken]
    twins = [v.twin for v in faults if v.twin is not None]
    others = [v.faulty for v in found if not v.accepted]
    warnings = sum(len(o.findings("warning")) for o in [*twins, *others])
    waits = [delay(v.naming) for v in named if v.naming is not None]
    fixed = [v for v in named if v.fix]
    right = sum(v.is_fix_right for v in fixed)
    lines = [
        f"named {len(named)} of {len(faults)}, seen {seen} of {len(faults)}, "
        f"false alarms on {alarms} of {len(twins) + len(others)} healthy runs "
        f"(warnings there: {warnings})",
        *([f"the first fix is right for {right} of {len(fixed)}"] if fixed else []),
        f"steps between onset and finding: median {statistics.median(waits):g}" if waits else "",
        *(f"could not be judged: {v.name} seed {v.seed}: {v.broken}" for v in broken),
    ]
    met = (
        len(named) >= math.ceil(NAMED_SHARE * len(faults) - 1e-9)
        and seen >= math.ceil(SEEN_SHARE * len(faults) - 1e-9)
        and all(v.is_fix_right for v in named)
        and not alarms
        and not broken
    )
    return "\n".join(line for line in lines if line), met


def healthy_programs(
    seeds: Sequence[int], only: Sequence[str], runs_dir: Path, jobs: int
) -> list[Outcome]:
    """Run the programs that have no fault."""
    scripts = sorted(p for p in HEALTHY.resolve().glob("*.py") if not p.name.startswith("_"))
    chosen = [script for script in scripts if not only or script.stem in only]
    programs = [Program(script=script, seed=seed) for script in chosen for seed in seeds]
    return run_all(programs, runs_dir, jobs, tell=say_progress)


def healthy_totals(outcomes: Sequence[Outcome]) -> tuple[str, bool]:
    """Return the totals of programs without a fault, in words, and whether they are low enough."""
    errors = [o for o in outcomes if o.findings("error")]
    warnings = sum(len(o.findings("warning")) for o in outcomes)
    broken = [o for o in outcomes if o.error]
    lines = [f"errors in {len(errors)} of {len(outcomes)} healthy runs, {warnings} warnings"]
    lines += [f"could not be judged: {o.program.name}: {o.error}" for o in broken]
    allowed = math.floor(WARNINGS_PER_RUN * len(outcomes) + 1e-9)
    return "\n".join(lines), not errors and not broken and warnings <= allowed


def healthy_table(outcomes: Sequence[Outcome]) -> str:
    """Return the findings about each program, as Markdown."""
    rows = ["| program | runs | errors | warnings | rules |", "|---|---|---|---|---|"]
    for name in dict.fromkeys(o.program.script.stem for o in outcomes):
        runs = [o for o in outcomes if o.program.script.stem == name]
        errors, warnings = (sum(len(o.findings(s)) for o in runs) for s in ("error", "warning"))
        rules = sorted({f["name"] for o in runs for f in o.findings(*WARNING_OR_WORSE)})
        rows.append(f"| {name} | {len(runs)} | {errors} | {warnings} | {', '.join(rules)} |")
    return "\n".join(rows)


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, print, and return the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--cases", type=Path, default=CASES, metavar="DIR")
    parser.add_argument("--healthy", action="store_true", help="run bench/healthy instead")
    parser.add_argument("--seeds", default="0,1,2")
    parser.add_argument("--only", default="", metavar="NAME,...")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--keep", type=Path, metavar="DIR", help="keep the runs in an empty folder")
    options = parser.parse_args(argv)
    seeds = [int(seed) for seed in options.seeds.split(",")]
    only = [name for name in options.only.split(",") if name]
    with tempfile.TemporaryDirectory() as scratch:
        runs_dir = (options.keep or Path(scratch)).resolve()
        if options.healthy:
            outcomes = healthy_programs(seeds, only, runs_dir, options.jobs)
            shown, (text, met) = healthy_table(outcomes), healthy_totals(outcomes)
        else:
            found = verdicts(options.cases, seeds, only, runs_dir, options.jobs)
            shown, (text, met) = table(found), totals(found)
    print(f"{shown}\n\n{text}")
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
