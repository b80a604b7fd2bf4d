"""Two starts of a script."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.checks.test_command import REAL, checked
from tests.harness.running import show

from mothtrap.checks.check import result_of
from mothtrap.checks.proofs.starts_differ import StartsDiffer
from mothtrap.checks.starts import Starts, StartSeen
from mothtrap.checks.subject import Subject
from mothtrap.core.facts.checks import CheckResult


def compared(
    first: tuple[float, ...],
    second: tuple[float, ...],
    *,
    weights: tuple[str, str] = ("a", "a"),
    seeded: bool = True,
) -> CheckResult:
    """Compare two starts with these losses and digests."""
    one, other = (
        StartSeen(losses=losses, weights=(digest,))
        for losses, digest in zip((first, second), weights, strict=True)
    )
    starts = Starts(first=one, second=other, seeded=seeded)
    return result_of(StartsDiffer(), Subject(starts=lambda: starts), 3)


def test_equal_starts_are_no_fault() -> None:
    made = compared((0.7, 0.5), (0.7, 0.5))
    assert made.passed == "two starts of the script train identically"
    assert made.figures == {"steps compared": 2}


def test_a_seeded_script_whose_losses_differ_gets_a_warning() -> None:
    [found] = compared((0.7, 0.5), (0.7, 0.6)).found
    assert found.severity == "warning"
    assert "differ from step 1 on: the loss is 0.5 in one and 0.6 in the other" in found.message


def test_a_script_without_a_seed_gets_a_note() -> None:
    [found] = compared((0.7,), (0.8,), seeded=False).found
    assert found.severity == "info"
    assert "sets no seed" in found.message


def test_rounding_is_a_note() -> None:
    [found] = compared((0.7, 0.5), (0.7, 0.500001)).found
    assert found.severity == "info"
    assert "rounding" in found.message


def test_weights_that_differ_after_equal_losses_are_a_note() -> None:
    [found] = compared((0.7,), (0.7,), weights=("a", "b")).found
    assert found.severity == "info"
    assert "the values of 1 of 1 parameter" in found.message


def test_a_script_that_cannot_be_started_again_is_left_out() -> None:
    made = result_of(StartsDiffer(), Subject(), 0)
    assert made.state == "not_applicable"


def test_the_order_of_a_set_of_strings_is_found_in_a_script(tmp_path: Path) -> None:
    options = ("--select", "PRE201,PRE205")
    outcome = checked(tmp_path, "unrepeatable.py", "--fault", options=options, python=REAL)
    assert outcome.returncode == 0, outcome.stderr
    [found] = show(tmp_path / "runs" / "seen", cwd=tmp_path)["findings"]
    assert (found["code"], found["severity"]) == ("PRE201", "warning")
    told = " ".join(outcome.stderr.split())
    assert "steps per epoch 20" in told
    assert "steps 600" in told


@pytest.mark.full
def test_a_script_without_the_fault_is_repeatable(tmp_path: Path) -> None:
    options = ("--select", "PRE201")
    outcome = checked(tmp_path, "unrepeatable.py", options=options, python=REAL)
    assert "two starts of the script train identically (steps compared 10)" in outcome.stderr
