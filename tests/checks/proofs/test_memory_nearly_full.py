"""Memory of a step, and the batch that fits."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from tests.checks.test_command import checked

from mothtrap.checks.check import result_of
from mothtrap.checks.proofs.memory_nearly_full import MemoryNearlyFull
from mothtrap.checks.step import Change, Trial
from mothtrap.checks.subject import Subject
from mothtrap.core.facts.checks import CheckResult

MIB = 1 << 20


def measured(base: float, row: float, *, rows: int = 32, whole: float = 1000) -> CheckResult:
    """Measure a step that needs `base` and, for each row, `row` of `whole` MiB."""

    def train(change: Change, steps: int, _seconds: float) -> Trial:
        used = base + row * rows * change.repeats
        fits = used <= whole
        return Trial(
            losses=np.zeros(steps if fits else 0),
            memory_bytes=used * MIB,
            limit_bytes=whole * MIB,
        )

    step: Any = SimpleNamespace(
        train=train, forward=SimpleNamespace(rows=rows, location="train.py:3")
    )
    return result_of(MemoryNearlyFull(), Subject(recorded=step), 3)


def test_the_largest_power_of_two_that_fits_is_computed() -> None:
    made = measured(50, 1.5)  # (850 - 50) / 1.5 = 533 rows
    assert not made.found
    assert made.figures["rows that fit"] == 512
    assert made.figures["rows of the batch"] == 32


def test_a_step_that_hardly_grows_gives_a_lower_bound() -> None:
    made = measured(50, 0.0001)
    assert made.figures["rows that fit at least"] >= 32 * 1024


def test_a_step_near_the_limit_gets_a_warning() -> None:
    [found] = measured(10, 30).found
    assert found.severity == "warning"
    assert "needs 970 of 1,000 MiB" in found.message


def test_memory_that_is_not_known_decides_nothing() -> None:
    made = measured(2000, 1)
    assert made.state == "not_enough_data"


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="of Linux alone")
def test_the_memory_of_a_script_is_measured_in_copies_of_it(tmp_path: Path) -> None:
    options = ("--select", "PRE206")
    outcome = checked(tmp_path, "wide.py", options=options)
    assert outcome.returncode == 0, outcome.stderr
    assert "the batch fits into memory (rows of the batch 16, rows that fit " in " ".join(
        outcome.stderr.split()
    )
