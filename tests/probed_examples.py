"""Train the model of an example in a process, and run the command that the example prints."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import mothtrap

EXAMPLE = Path(__file__).parents[1] / "examples" / "probing" / "train.py"


def probed(framework: str, folder: Path, *more: str) -> tuple[mothtrap.Run, str]:
    """Return the run of the printed command, and the output of the command."""
    shutil.copy(EXAMPLE, folder)
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "TF_CPP_MIN_LOG_LEVEL": "3"}
    environment["PYTHONPATH"] = os.pathsep.join([str(folder), *filter(None, sys.path)])

    def run(words: list[str]) -> str:
        done = subprocess.run(
            [sys.executable, *words],
            cwd=folder,
            env=environment,
            capture_output=True,
            text=True,
            timeout=300,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    printed = run(["train.py", framework]).strip().splitlines()[-1].split()
    assert printed[:2] == ["mothtrap", "probe"]
    shown = run(["-m", *printed, "--name", "asked", *more])
    return mothtrap.open_run(folder / "runs" / "asked"), shown
