"""Acceptance on a GPU: faults are named, exceptions explained, and the default is cheap.

Runs `gpu_program.py` under `mothtrap run` in every kind, and checks the results: bf16 and
`torch.compile` train without an error, a NaN is located in its line and replayed, running out of
memory and a token that the embedding lacks (a device-side assert on CUDA) are explained. Then it
compares step times with and without mothtrap. Prints a line for each check.

Run: bench/gpu.sh [--device cuda] [--width 512] [--steps 200]
"""

from __future__ import annotations

import argparse
import json
import math
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

PROGRAM = Path(__file__).with_name("gpu_program.py")
LINES = PROGRAM.read_text(encoding="utf-8").splitlines()
NAN_PLACE = next(f"{PROGRAM.name}:{n}" for n, line in enumerate(LINES, 1) if "zero / zero" in line)
"""Line that makes the NaN."""
PAIRS = 3
"""Pairs of plain and observed processes whose least step times are compared."""
Check = tuple[str, bool, str]


def main(words: Sequence[str] | None = None) -> int:
    """Run all checks; return 1 if one failed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--width", type=int, default=512)
    parser.add_argument("--steps", type=int, default=200)
    given = parser.parse_args(words)
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        jobs = Jobs(Path(folder), given.device, given.width, given.steps)
        for name, passed, text in checks(jobs):
            failed += not passed
            print(f"{'ok    ' if passed else 'FAILED'} {name}: {text}", flush=True)
    return 1 if failed else 0


class Jobs:
    """Runs the program in a folder of runs."""

    def __init__(self, folder: Path, device: str, width: int, steps: int) -> None:
        self.folder, self.device, self.steps = folder, device, steps
        self._sizes = (device, str(width), str(steps))
        self._runs: dict[str, int] = {}

    def plain(self, kind: str) -> float:
        """Return the median step time without mothtrap, milliseconds."""
        return _median_ms(_output([sys.executable, str(PROGRAM), kind, *self._sizes]))

    def observed(self, kind: str) -> float:
        """Return the median step time under `mothtrap run`, milliseconds; NaN if it ended early."""
        self._runs[kind] = self._runs.get(kind, 0) + 1
        command = ["run", "--runs-dir", str(self.folder), "--name", f"{kind}-{self._runs[kind]}"]
        return _median_ms(_mothtrap(*command, str(PROGRAM), kind, *self._sizes))

    def verdict(self, kind: str) -> dict[str, Any]:
        """Return the output of `mothtrap show` for the latest run of a kind."""
        words = ["show", str(self._latest(kind)), "--format", "json", "--all"]
        found: dict[str, Any] = json.loads(_mothtrap(*words))
        return found

    def replay(self, kind: str) -> str:
        """Return the output of `mothtrap replay`."""
        return _mothtrap("replay", str(self._latest(kind)))

    def _latest(self, kind: str) -> Path:
        return self.folder / f"{kind}-{self._runs[kind]}"


def checks(jobs: Jobs) -> Iterator[Check]:
    """Yield the name of each check, whether it passed, and the observation."""
    for kind in ("bf16", "compiled"):
        jobs.observed(kind)
        yield kind, *_is_healthy(jobs.verdict(kind), jobs.steps)
    jobs.observed("nan")
    yield "NaN is located", *_is_located(jobs.verdict("nan"), jobs.steps // 2)
    replayed = jobs.replay("nan")
    yield "NaN is replayed", "bit-identical" in replayed, replayed.partition("\n")[0]
    yield "the replay names its line", NAN_PLACE in replayed, NAN_PLACE
    for kind, name in (("memory", "memory is explained"), ("index", "an index is explained")):
        jobs.observed(kind)
        yield name, *_is_explained(jobs.verdict(kind))
    yield "cost of the default", *_cost(jobs.plain, jobs.observed)


def _is_healthy(verdict: dict[str, Any], steps: int) -> tuple[bool, str]:
    errors = [found for found in verdict["findings"] if found["severity"] == "error"]
    return not errors and verdict["run"]["steps"] == steps, verdict["verdict"]


def _is_located(verdict: dict[str, Any], step: int) -> tuple[bool, str]:
    """Return whether an error that begins at a step names the line of the NaN."""
    errors = [one for one in verdict["findings"] if one["severity"] == "error"]
    places = [str(one.get("location")) for one in errors if one["step"] == step]
    return any(place.endswith(NAN_PLACE) for place in places), verdict["verdict"]


def _is_explained(verdict: dict[str, Any]) -> tuple[bool, str]:
    failed = verdict.get("failures", [])
    return bool(failed and failed[0]["sentence"]), failed[0]["sentence"] if failed else "nothing"


def _cost(plain: Callable[[str], float], observed: Callable[[str], float]) -> tuple[bool, str]:
    pairs = [(plain("plain"), observed("plain")) for _ in range(PAIRS)]
    before_ms, after_ms = (min(times) for times in zip(*pairs, strict=True))
    text = f"{before_ms:.2f} ms a step without, {after_ms:.2f} with: {after_ms / before_ms:.3f}"
    return not math.isnan(after_ms), text  # a figure for the docs, no limit: sizes differ


def _median_ms(output: str) -> float:
    found = re.search(r"^median ([0-9.]+) ms", output, re.MULTILINE)
    return float(found[1]) if found else float("nan")


def _mothtrap(*words: str) -> str:
    return _output([sys.executable, "-m", "mothtrap", *words])


def _output(command: Sequence[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout


if __name__ == "__main__":
    sys.exit(main())
