"""Programs print the same weights, losses, and random numbers with and without `mothtrap run`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import mothtrap

pytest.importorskip("tensorflow", exc_type=ImportError)
pytest.importorskip("keras")

PROGRAM = str(Path(__file__).parent / "unchanged_programs.py")
STEPS = 188
"""Steps of all programs; the run must have observed them."""


def printed(folder: Path, *command: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, *command], cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.mark.full
def test_programs_print_the_same(tmp_path: Path) -> None:
    plain = printed(tmp_path, PROGRAM)
    assert len(plain) > 100
    assert not [line for line in plain if line.endswith(" False")]
    for capture in ("default", "everything"):
        options = ["-m", "mothtrap", "run", "--capture", capture, "--name", capture]
        assert printed(tmp_path, *options, PROGRAM) == plain
        found = mothtrap.open_run(tmp_path / "runs" / capture)
        assert found.steps >= STEPS
