"""Bad steps of three kinds that `mothtrap run --recheck` must distinguish.

Runs `rechecked/train.py` with injected bit flips, with repeatable faults, and with an operation
that is not deterministic, each with its own seed, and compares the conclusion.

Run: python bench/rechecking.py [--flips 40] [--bugs 20] [--noises 10]
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

if __package__ in (None, ""):
    sys.path.insert(0, str(Path(__file__).parents[1]))

from bench.runs_of_programs import PYTHON, TIMEOUT_S

SCRIPT = Path(__file__).parent / "rechecked" / "train.py"
WORDS = {
    "flip": "was transient",
    "bug": "the fault is repeatable",
    "noise": "two replays give different bits",
}


def concluded(kind: str, seed: int, folder: Path) -> str:
    """Return the kind that mothtrap concludes, or ""."""
    (folder / "train.py").write_text(SCRIPT.read_text(encoding="utf-8"), encoding="utf-8")
    with tempfile.TemporaryDirectory() as elsewhere:
        mark = str(Path(elsewhere) / "mark")
        options = ["--runs-dir", "runs", "--recheck", "--quiet"]
        words = [PYTHON, "-m", "mothtrap", "run", *options, "train.py", kind, str(seed), mark]
        done = subprocess.run(
            words, cwd=folder, capture_output=True, text=True, timeout=TIMEOUT_S, check=False
        )
    line = next((one for one in done.stderr.splitlines() if "recheck of step" in one), "")
    return next((name for name, text in WORDS.items() if text in line), "")


def main() -> None:
    """Print each run, and how many were concluded rightly."""
    parser = argparse.ArgumentParser(description=__doc__)
    for name, number in (("flips", 40), ("bugs", 20), ("noises", 10)):
        parser.add_argument(f"--{name}", type=int, default=number)
    args = parser.parse_args()
    right: Counter[str] = Counter()
    wanted = {"flip": args.flips, "bug": args.bugs, "noise": args.noises}
    for kind, number in wanted.items():
        for seed in range(number):
            with tempfile.TemporaryDirectory() as folder:
                found = concluded(kind, seed, Path(folder))
            right[kind] += found == kind
            print(f"{kind} {seed}: {found or 'no conclusion'}", flush=True)
    print(", ".join(f"{right[kind]} of {number} {kind}" for kind, number in wanted.items()))
    raise SystemExit(0 if right == Counter(wanted) else 1)


if __name__ == "__main__":
    main()
