from __future__ import annotations

import numpy as np
import pytest
from tests.rules.windows import noise, series, window

from mothtrap.core.errors import NotEnoughData
from mothtrap.core.facts.memory import EvaluationGraphsKept, LossesKept
from mothtrap.core.findings import Finding, Severity
from mothtrap.core.window import Window
from mothtrap.rules.memory_growth import MIB, MemoryGrowth

STEPS = np.arange(0, 700, 10)


def memory(mib: np.ndarray, of: str = "process") -> Window:
    return window(series("memory_bytes", mib * MIB, of=of, steps=STEPS), steps=700)


def check(mib: np.ndarray, of: str = "process", **thresholds: float) -> list[Finding]:
    return MemoryGrowth(**thresholds).check(memory(mib, of))


@pytest.mark.parametrize(
    ("of", "severity"), [("process", Severity.WARNING), ("cuda:0", Severity.ERROR)]
)
def test_fires_on_memory_that_rises_and_rises(of: str, severity: Severity) -> None:
    [finding] = check(500.0 + 2.0 * STEPS + noise(70, scale=5.0), of)
    assert finding.severity is severity
    assert 290 <= finding.step <= 310
    assert finding.last_step == 690
    assert of in finding.message


@pytest.mark.parametrize(
    "healthy",
    [
        np.full(70, 900.0) + noise(70, scale=30.0),
        np.minimum(3000.0, 500.0 + 12.0 * STEPS),
        np.where(STEPS < 500, 800.0, 1600.0),
        500.0 + 8.0 * (STEPS % 100),
        3000.0 + 0.5 * STEPS,
        20.0 + 0.1 * STEPS,
    ],
    ids=["noise", "fills up", "one step up", "let go again", "slowly", "small"],
)
def test_stays_quiet(healthy: np.ndarray) -> None:
    assert check(healthy) == []


def test_the_parameters_of_old_can_be_set() -> None:
    rises = 1000.0 + 0.5 * STEPS
    assert check(rises) == []
    [finding] = check(rises, increase=5.0, least_mib=1.0)
    assert finding.evidence["limit_percent"] == 5.0
    short = window(series("memory_bytes", (1 + STEPS[:10]) * MIB, of="cuda:0", steps=STEPS[:10]))
    settings = {"patience": 10, "window": 40, "least_mib": 1.0}
    assert [f.severity for f in MemoryGrowth(**settings).check(short)] == [Severity.ERROR]


def test_fires_on_losses_that_are_kept() -> None:
    kept = [
        LossesKept(step=step, kept=step + 1, location="train.py:7") for step in range(49, 350, 50)
    ]
    [finding] = MemoryGrowth().check(window(*kept))
    assert (finding.severity, finding.step, finding.last_step) == (Severity.WARNING, 0, 349)
    assert finding.location == "train.py:7"
    assert "last 350 losses" in finding.message
    [finding] = MemoryGrowth().check(window(LossesKept(step=900, kept=500, more=True)))
    assert "last 500 or more losses" in finding.message
    assert finding.step == 401


def test_fires_on_evaluations_that_are_kept() -> None:
    kept = [
        EvaluationGraphsKept(step=20 * n, evaluations=n, forwards=5 * n, location="train.py:9")
        for n in range(3, 8)
    ]
    assert MemoryGrowth().check(window(kept[0])) == []
    [finding] = MemoryGrowth().check(window(*kept))
    assert (finding.severity, finding.step) == (Severity.WARNING, 80)
    assert "last 7 evaluations" in finding.message
    assert finding.fixes[0].startswith("Evaluate under")


def test_losses_of_a_small_epoch_may_be_kept() -> None:
    assert MemoryGrowth().check(window(LossesKept(step=99, kept=100))) == []
    assert len(MemoryGrowth(kept_losses=100).check(window(LossesKept(step=99, kept=100)))) == 1


def test_says_why_it_cannot_judge() -> None:
    with pytest.raises(NotEnoughData, match="needs 500 steps"):
        MemoryGrowth().check(window(steps=300))
