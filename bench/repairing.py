"""Repairs of the fault programs by `mothtrap fix`, in copies that do not show the healthy twin.

A repair counts when the patch applies, the repaired program runs, the finding is gone, and its
score is within two standard deviations of the healthy twin's, or better. The score is the last
number that a program prints.

Run: python bench/repairing.py [--only NAME,...] [--seeds 3]
     python bench/repairing.py --public FOLDER     scripts NAME.py, each with NAME.healthy.py
     python bench/repairing.py --healthy           no patch may be offered; also with --public
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

if __package__ in (None, ""):
    sys.path.insert(0, str(Path(__file__).parents[1]))

from bench.runs_of_programs import PYTHON, TIMEOUT_S
from bench.without_twin import written

HERE = Path(__file__).parent
BENCHES = (HERE / "faultbench", HERE / "faultbench" / "more")
WITHIN = 2.0
"""Standard deviations of the twin's score over its seeds."""
NUMBER = re.compile(r"(?<![\w.])-?(?:\d+\.\d+(?:e[-+]?\d+)?|nan|inf)\b")


@dataclass(frozen=True, kw_only=True)
class Case:
    """A faulty program and its twin; `arguments` make the twin healthy."""

    name: str
    script: Path
    twin: Path
    arguments: tuple[str, ...]
    rules: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Repaired:
    """Outcome of one case; `said` is the message of `mothtrap fix` if there is no patch."""

    name: str
    patched: bool
    said: str = ""
    gone: bool = False
    score: float | None = None
    faulty: float | None = None
    healthy: tuple[float, ...] = ()

    @property
    def well(self) -> bool:
        """Return whether the score is as good as the twin's."""
        if self.score is None or self.faulty is None or not self.healthy:
            return False
        mean, spread = statistics.fmean(self.healthy), statistics.pstdev(self.healthy)
        if abs(self.score - mean) <= WITHIN * spread + 1e-9:
            return True
        better = 1 if mean > self.faulty else -1
        return (self.score - mean) * better > 0


def cases(only: Sequence[str]) -> Iterator[Case]:
    """Yield the faulty programs of the benches."""
    for bench in BENCHES:
        folder = bench / "cases" if (bench / "cases").is_dir() else bench
        expected = json.loads((bench / "expected.json").read_text(encoding="utf-8"))
        for name, rules in sorted(expected.items()):
            if rules and (not only or name in only):
                script = folder / f"{name}.py"
                yield Case(
                    name=name,
                    script=script,
                    twin=script,
                    arguments=("--healthy",),
                    rules=tuple(rules),
                )


def public(folder: Path, only: Sequence[str]) -> Iterator[Case]:
    """Yield the scripts of a folder, each with its unbroken original."""
    for twin in sorted(folder.absolute().glob("*.healthy.py")):
        name = twin.name.removesuffix(".healthy.py")
        if only and name not in only:
            continue
        yield Case(name=name, script=twin.with_name(f"{name}.py"), twin=twin, arguments=())


def copied(script: Path, folder: Path) -> Path:
    """Copy a script and its helper files into a folder; return the path of the copy."""
    for helper in script.parent.glob("_*.py"):
        shutil.copy(helper, folder)
    return Path(shutil.copy(script, folder / "train.py"))


def tried(case: Case, folder: Path, seeds: int) -> Repaired:
    """Run a faulty program, repair it, and run the result and the twin."""
    copy = (written if case.twin == case.script else copied)(case.script, folder)
    runs = ["--runs-dir", str(folder / "runs")]
    first = python(["-m", "mothtrap", "run", *runs, "--name", "faulty", copy.name], folder)
    fix = python(["-m", "mothtrap", "fix", *runs, "faulty"], folder)
    if fix.returncode:
        return Repaired(name=case.name, patched=False, said=fix.stderr.strip().splitlines()[0])
    done = subprocess.run(
        ["patch", "-p1"], input=fix.stdout, cwd=folder, text=True, capture_output=True, check=False
    )
    if done.returncode:
        return Repaired(name=case.name, patched=False, said=f"does not apply: {done.stdout}")
    codes = {line.split()[0] for line in fix.stderr.splitlines() if line[:1].isupper()}
    again = python(["-m", "mothtrap", "run", *runs, "--name", "repaired", copy.name], folder)
    shown = python(["-m", "mothtrap", "show", *runs, "repaired", "--format", "json"], folder)
    still = {one["code"] for one in json.loads(shown.stdout).get("findings", [])}
    return Repaired(
        name=case.name,
        patched=True,
        said=" ".join(sorted(codes)),
        gone=not codes & still,
        score=score(again.stdout),
        faulty=score(first.stdout),
        healthy=tuple(twin_scores(case, seeds)),
    )


def twin_scores(case: Case, seeds: int) -> Iterator[float]:
    """Yield the score of the healthy twin for each seed."""
    for seed in range(seeds):
        words = [str(case.twin), *case.arguments, "--seed", str(seed)]
        value = score(python(words, case.twin.parent).stdout)
        if value is not None:
            yield value


def score(printed: str) -> float | None:
    """Return the last number that a program printed, but for the seconds that it took."""
    lines = [line for line in printed.splitlines() if "seconds=" not in line]
    found = [number for line in lines for number in NUMBER.findall(line)]
    return float(found[-1]) if found else None


def python(words: Sequence[str], cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [PYTHON, *words], cwd=cwd, capture_output=True, text=True, timeout=TIMEOUT_S, check=False
    )


def healthy_programs() -> list[tuple[Path, tuple[str, ...]]]:
    """Return the healthy programs of the benches with their arguments."""
    scripts = [one for one in sorted((HERE / "healthy").glob("*.py")) if one.name[0] != "_"]
    for bench in BENCHES:
        scripts += sorted(bench.glob("**/healthy_*.py"))
    twins = [(case.script, case.arguments) for case in cases(())]
    return [*((one, ()) for one in scripts), *twins]


def healthy_patches(programs: Sequence[tuple[Path, tuple[str, ...]]], only: Sequence[str]) -> int:
    """Print the healthy programs for which a patch is offered; return their number."""
    offered = 0
    for script, arguments in programs:
        if only and script.stem not in only:
            continue
        try:
            with tempfile.TemporaryDirectory() as name:
                runs = ["--runs-dir", name]
                python(["-m", "mothtrap", "run", *runs, str(script), *arguments], script.parent)
                fix = python(["-m", "mothtrap", "fix", *runs], script.parent)
        except subprocess.TimeoutExpired:
            print(f"{script.stem}: not judged: a program ran past {TIMEOUT_S} s", flush=True)
            continue
        offered += not fix.returncode
        said = "PATCH\n" + fix.stdout if not fix.returncode else fix.stderr.strip()[:200]
        print(f"{script.stem}: {said}", flush=True)
    return offered


def main() -> None:
    """Print one row per program, and how many were repaired."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--public", type=Path)
    parser.add_argument("--healthy", action="store_true")
    args = parser.parse_args()
    only = [name for name in args.only.split(",") if name]
    chosen = public(args.public, only) if args.public else cases(only)
    if args.healthy:
        twins = [(case.twin, case.arguments) for case in chosen]
        programs = twins if args.public else healthy_programs()
        raise SystemExit(1 if healthy_patches(programs, [] if args.public else only) else 0)
    patched = well = 0
    for case in chosen:
        try:
            with tempfile.TemporaryDirectory() as name:
                result = tried(case, Path(name), args.seeds)
        except subprocess.TimeoutExpired:
            print(f"{case.name}: not judged: a program ran past {TIMEOUT_S} s", flush=True)
            continue
        patched += result.patched
        well += result.patched and result.gone and result.well
        mean = f"{statistics.fmean(result.healthy):.4g}" if result.healthy else "-"
        outcome = (
            f"patched ({result.said}); finding {'gone' if result.gone else 'STILL THERE'}; score "
            f"{result.faulty} -> {result.score}, healthy {mean}: "
            f"{'as healthy' if result.well else 'NOT AS HEALTHY'}"
            if result.patched
            else f"no patch: {result.said}"
        )
        print(f"{case.name}: {outcome}", flush=True)
    print(f"{patched} patched, {well} of them as good as the healthy twin")


if __name__ == "__main__":
    main()
