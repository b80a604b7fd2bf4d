"""Keras scripts that are started again: from the beginning, and from a checkpoint."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from tests.harness.running import PYTHON, environment, run, show

pytest.importorskip("tensorflow")
pytestmark = pytest.mark.full
SCRIPT = Path(__file__).parent / "fits_and_resumes.py"
WORDS = [*PYTHON, "-m", "mothtrap", "check", "--runs-dir", "runs", "--name", "seen"]


def checked(folder: Path, saves: str) -> tuple[list[dict[str, Any]], str]:
    """Check a script that resumes; return the findings and what was printed."""
    resume = f"{sys.executable} {SCRIPT} {saves} --resume"
    options = ["--select", "PRE201,PRE203,PRE205", "--resume-command", resume]
    target = ["--", sys.executable, str(SCRIPT), saves]
    outcome = run([*WORDS, *options, *target], cwd=folder, env=environment())
    assert outcome.returncode in (0, 1), outcome.stderr
    assert not list(folder.glob("*.keras"))
    assert not list(folder.glob("*.h5"))
    return show(folder / "runs" / "seen", cwd=folder)["findings"], " ".join(outcome.stderr.split())


def test_a_whole_checkpoint_and_a_second_start_are_no_fault(tmp_path: Path) -> None:
    found, told = checked(tmp_path, "whole")
    assert found == []
    assert "the resumed run continues as before (steps compared 5)" in told
    assert "two starts of the script train identically (steps compared 10)" in told
    assert "steps per epoch 8" in told
    assert "steps 320" in told


def test_moments_that_a_file_of_weights_lacks_are_named(tmp_path: Path) -> None:
    [found], _ = checked(tmp_path, "weights")
    assert found["code"] == "PRE203"
    assert "of the optimizer" in found["message"]


def test_a_script_without_a_seed_gets_a_note_alone(tmp_path: Path) -> None:
    found, told = checked(tmp_path, "unseeded")
    notes = [one for one in found if one["code"] == "PRE201"]
    assert [one["severity"] for one in notes] == ["info"]
    assert "sets no seed" in notes[0]["message"]
    assert "steps 960" in told  # `fit` is called in a loop
