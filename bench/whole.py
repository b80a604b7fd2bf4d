"""Time that `mothtrap run` adds to whole programs, and the time that it reports.

Each program runs in pairs of whole processes, plain and watched, in turns. The table has the
median of the differences in wall and processor time with the lowest and highest, and the time
that the verdict names. Programs of others are given by path: `--script train.py`.

Run: .venv/bin/python bench/whole.py [--pairs 3] [--only NAME] [--script PATH ...] [--json FILE]
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import mothtrap

HEALTHY = Path(__file__).parent / "healthy"
EXAMPLES = Path(mothtrap.__file__).parent / "examples"
PROGRAMS = {
    "digits": (EXAMPLES / "digits.py",),
    **{
        name: (HEALTHY / f"{name}.py", "--seed", "0")
        for name in ("cnn", "regression", "rnn_tagger", "transformer_lm", "vae", "policy_gradient")
    },
}
"""Programs of this repository; each ends within half a minute."""


@dataclass(frozen=True, kw_only=True)
class Took:
    """Seconds that a process and its children took."""

    wall_s: float
    cpu_s: float
    stderr: str = ""


@dataclass(frozen=True, kw_only=True)
class Added:
    """Time that watching added to a program: medians over the pairs, and all differences."""

    name: str
    plain_s: float
    wall_s: float
    cpu_s: float
    reported_s: float
    walls_s: tuple[float, ...]

    @property
    def most_s(self) -> float:
        """The aim for a program of this length: 1.5 s and 2 %."""
        return 1.5 + 0.02 * self.plain_s

    @property
    def is_honest(self) -> bool:
        """Return whether the reported time is within 20 % or 0.3 s of the true time."""
        return abs(self.reported_s - self.wall_s) <= max(0.3, 0.2 * self.wall_s)


def run(words: Sequence[str], folder: str, **environment: str) -> Took:
    """Run a program to its end.

    Raises:
        CalledProcessError: it failed.
    """
    kept = {name: value for name, value in os.environ.items() if not name.startswith("MOTHTRAP_")}
    kept |= environment
    before, began_s = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    done = subprocess.run(words, cwd=folder, env=kept, capture_output=True, check=True, text=True)
    wall_s, after = time.perf_counter() - began_s, resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Took(wall_s=wall_s, cpu_s=cpu_s, stderr=done.stderr)


def reported_s(watched: Took) -> float:
    """Return the seconds that the verdict names; for a long run, its share of the time."""
    said = re.search(r"mothtrap added ([\d.]+) (s|%|min)", watched.stderr)
    if said is None:
        raise ValueError(f"no verdict in: {watched.stderr[-400:]}")
    number = float(said[1])
    return {"s": number, "min": 60 * number, "%": number / 100 * watched.wall_s}[said[2]]


def measure(name: str, program: Sequence[str], pairs: int) -> Added:
    """Run a program plain and watched, in turns."""
    plain, watched, reported = [], [], []
    for number in range(pairs):
        with tempfile.TemporaryDirectory() as folder:
            plain.append(run([sys.executable, *program], folder))
        with tempfile.TemporaryDirectory() as folder:
            start = [sys.executable, "-m", "mothtrap", "run", "--runs-dir", folder, "--name"]
            watched.append(run([*start, str(number), "--", sys.executable, *program], folder))
            reported.append(reported_s(watched[-1]))
    walls = tuple(b.wall_s - a.wall_s for a, b in zip(plain, watched, strict=True))
    return Added(
        name=name,
        plain_s=statistics.median(each.wall_s for each in plain),
        wall_s=statistics.median(walls),
        cpu_s=statistics.median(b.cpu_s - a.cpu_s for a, b in zip(plain, watched, strict=True)),
        reported_s=statistics.median(reported),
        walls_s=walls,
    )


def line(added: Added) -> str:
    """Return a row of the table."""
    span = f"[{min(added.walls_s):.2f}, {max(added.walls_s):.2f}]"
    return (
        f"| {added.name} | {added.plain_s:.1f} s | {added.wall_s:.2f} s {span} | "
        f"{added.most_s:.2f} s | {added.cpu_s:.2f} s | {added.reported_s:.2f} s | "
        f"{'yes' if added.is_honest else 'no'} |"
    )


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument("--only", choices=sorted(PROGRAMS), action="append")
    parser.add_argument("--script", type=Path, action="append", default=[])
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    programs = {name: tuple(map(str, PROGRAMS[name])) for name in options.only or PROGRAMS}
    programs |= {script.stem: (str(script.absolute()),) for script in options.script}
    print(f"{platform.machine()}, {os.cpu_count()} CPUs, Python {platform.python_version()}\n")
    print("| program | plain | added wall time | aim | added CPU time | reported | honest |")
    print("|---|---|---|---|---|---|---|")
    found = []
    for name, program in programs.items():
        found.append(measure(name, program, options.pairs))
        print(line(found[-1]), flush=True)
    if options.json:
        options.json.write_text(json.dumps([asdict(each) for each in found], indent=1))
    median_s = statistics.median(each.wall_s for each in found)
    print(
        f"\nmedian {median_s:.2f} s; {sum(each.is_honest for each in found)} of {len(found)} honest"
    )


if __name__ == "__main__":
    main()
