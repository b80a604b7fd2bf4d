"""A training that is resumed from its checkpoint."""

from __future__ import annotations

import sys
from pathlib import Path

import msgspec
import pytest
from tests.checks.test_command import PROGRAMS, REAL, checked
from tests.harness.running import show

from mothtrap.checks.check import result_of
from mothtrap.checks.proofs.resume_differs import ResumeDiffers
from mothtrap.checks.resumed import Resumed, StepState
from mothtrap.checks.subject import Subject
from mothtrap.core.facts.checks import CheckResult

STATE = StepState(
    weights=("a", "b"),
    moments={"exp_avg": ("c", "d"), "step": ("e", "e")},
    rates=((0.01,), (0.009,)),
    losses=(0.7, 0.6),
    checkpoint="last.pt",
)


def compared(**after: object) -> CheckResult:
    """Make the check of a resumed training that differs in some fields."""
    other = msgspec.structs.replace(STATE, **after)
    subject = Subject(resume=lambda: Resumed(before=STATE, after=other))
    return result_of(ResumeDiffers(), subject, 0)


@pytest.mark.parametrize(
    ("after", "severity", "text"),
    [
        ({"weights": ("a", "x")}, "error", "1 of 2 weights"),
        ({"moments": {}}, "warning", "exp_avg, step of the optimizer"),
        ({"rates": ((0.02,), (0.009,))}, "warning", "0.01 before and 0.02 in the first step"),
        ({"rates": ((0.01,), (0.01,))}, "warning", "in step 2"),
        ({"losses": (0.9, 0.6)}, "info", "so the data or the random numbers differ"),
    ],
    ids=["weights", "moments", "rate", "later rate", "losses"],
)
def test_what_differs_is_named(after: dict[str, object], severity: str, text: str) -> None:
    [found] = compared(**after).found
    assert found.severity == severity
    assert text in found.message
    assert "last.pt" in found.message


def test_a_training_that_goes_on_as_before_is_no_fault() -> None:
    made = compared()
    assert made.passed == "the resumed run continues as before"
    assert made.figures == {"steps compared": 2}


def outcome_of(folder: Path, saves: str) -> list[dict[str, str]]:
    words = f"{sys.executable} {PROGRAMS / 'resumes.py'} --saves {saves} --resume last.pt"
    options = ("--select", "PRE203", "--resume-command", words)
    outcome = checked(folder, "resumes.py", "--saves", saves, options=options, python=REAL)
    assert not (folder / "last.pt").exists()
    assert outcome.returncode in (0, 1), outcome.stderr
    found: list[dict[str, str]] = show(folder / "runs" / "seen", cwd=folder)["findings"]
    return found


@pytest.mark.full
def test_moments_that_no_checkpoint_holds_are_named(tmp_path: Path) -> None:
    [found] = outcome_of(tmp_path, "model,schedule")
    assert found["code"] == "PRE203"
    assert "exp_avg" in found["message"]


@pytest.mark.full
def test_a_schedule_that_no_checkpoint_holds_is_named(tmp_path: Path) -> None:
    [found] = outcome_of(tmp_path, "model,optimizer")
    assert "the learning rate" in found["message"]


@pytest.mark.full
def test_a_complete_checkpoint_is_no_fault(tmp_path: Path) -> None:
    assert outcome_of(tmp_path, "model,optimizer,schedule") == []
