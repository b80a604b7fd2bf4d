"""Scripts of `mothtrap replay --repro`, run without the training code.

Each program fails. Its run is replayed with `--repro`. Then the program and its run are deleted,
and the script is started in an empty folder by another Python and, if wanted, as another user. It
counts if it has at most 60 lines and 1 MB of arrays, and fails with the same bits or the same
exception.

Run: python bench/reproducing.py --python OTHER/bin/python [--user NAME] [--only NAME,...]
     python bench/reproducing.py --python OTHER/bin/python --public FOLDER    scripts NAME.py there
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

if __package__ in (None, ""):
    sys.path.insert(0, str(Path(__file__).parents[1]))

from bench.runs_of_programs import PYTHON, TIMEOUT_S

PROGRAMS = Path(__file__).parents[1] / "tests" / "replay" / "programs"
HELPERS = ("telling", "gradient_of_one_rank")
"""Not complete programs: one is imported, and one needs two processes."""
MAX_LINES, MAX_BYTES = 60, 1_100_000


def reproduced(script: Path, python: str, user: str | None) -> str:
    """Return how the script that was written for a program fails; begins with "same" if it counts.

    Args:
        script: the program.
        python: interpreter of another environment.
        user: owner of the second process; None = the same.
    """
    with tempfile.TemporaryDirectory() as name:
        training, place = Path(name) / "training", Path(name) / "empty"
        for folder in (training, place):
            folder.mkdir()
        for helper in (script, *script.parent.glob("_*.py"), script.parent / "telling.py"):
            if helper.exists():
                shutil.copy(helper, training)
        _mothtrap(["run", "--runs-dir", "runs", "--name", "r", script.name], training)
        written = place / "repro.py"
        again = ["replay", "--runs-dir", "runs", "r", "--anyway", "--repro", str(written)]
        said = _mothtrap(again, training)
        if not written.exists():
            return f"no script: {said.strip().splitlines()[-1][:150]}"
        shutil.rmtree(training)
        arrays = written.with_suffix(".npz")
        lines = len(written.read_text(encoding="utf-8").splitlines())
        size = arrays.stat().st_size if arrays.exists() else 0
        if lines > MAX_LINES or size > MAX_BYTES:
            return f"too large: {lines} lines, {size} bytes"
        for path in (Path(name), place, *place.iterdir()):
            path.chmod(0o755)
        done = subprocess.run(
            [python, written.name],
            cwd=place,
            env={"PATH": os.defpath, "HOME": str(place), "LANG": "C.UTF-8"},
            user=user,
            extra_groups=[] if user else None,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )
        last = (done.stderr.strip() or done.stdout.strip()).splitlines()[-1:]
        found = last[0].rpartition("reproduced: the ")[2] if last else ""
        is_same = done.returncode == 1 and found.startswith("same ")
        return f"{found[:90]}; {lines} lines, {size} bytes" if is_same else f"failed: {last}"


def _mothtrap(words: list[str], cwd: Path) -> str:
    done = subprocess.run(
        [PYTHON, "-m", "mothtrap", *words],
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    return done.stderr or done.stdout


def main() -> None:
    """Print one row per program, and how many count."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--python", required=True)
    parser.add_argument("--user")
    parser.add_argument("--public", type=Path)
    parser.add_argument("--only", default="")
    args = parser.parse_args()
    only = [name for name in args.only.split(",") if name]
    folder = (args.public or PROGRAMS).absolute()
    scripts = [one for one in sorted(folder.glob("*.py")) if one.stem not in HELPERS]
    chosen = [one for one in scripts if one.name[0] != "_" and (not only or one.stem in only)]
    same = 0
    for script in chosen:
        found = reproduced(script, args.python, args.user)
        same += found.startswith("same ")
        print(f"{script.stem}: {found}", flush=True)
    print(f"{same} of {len(chosen)} fail with the same bits or exception")


if __name__ == "__main__":
    main()
