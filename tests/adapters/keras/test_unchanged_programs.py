"""Programs print the same weights, losses, and random states with and without `mothtrap run`."""

from __future__ import annotations

import functools
import subprocess
import sys
from pathlib import Path

import pytest

import mothtrap

pytest.importorskip("tensorflow", exc_type=ImportError)
pytest.importorskip("keras")

from tests.adapters.keras.unchanged_programs import PROGRAMS

PROGRAM = Path(__file__).parent / "unchanged_programs.py"
NAMES = [each.__name__ for each in PROGRAMS]


def printed(folder: Path, *command: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, *command], cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@functools.cache
def plain(name: str, folder: Path) -> list[str]:
    return printed(folder, str(PROGRAM), name)


@pytest.mark.full
@pytest.mark.parametrize("capture", ["default", "everything"])
@pytest.mark.parametrize("name", NAMES)
def test_a_program_prints_the_same(tmp_path: Path, name: str, capture: str) -> None:
    options = ["-m", "mothtrap", "run", "--capture", capture, "--name", "a"]
    watched = printed(tmp_path, *options, str(PROGRAM), name)
    assert watched == plain(name, Path(__file__).parent)
    assert len(mothtrap.open_run(tmp_path / "runs" / "a").steps_of("train"))
