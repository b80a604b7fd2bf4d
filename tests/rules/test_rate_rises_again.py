from __future__ import annotations

import numpy as np
import pytest
from tests.rules.windows import series, window

from mothtrap.core.errors import NotEnoughData
from mothtrap.core.facts.data import LoaderBegan
from mothtrap.core.findings import Finding, Severity
from mothtrap.rules.rate_rises_again import RateRisesAgain

STEPS = np.arange(200)


def cosine(period: float) -> np.ndarray:
    return 0.05 + 0.05 * np.cos(2 * np.pi * STEPS / period)


def check(rate: np.ndarray, batches: int | None = None) -> list[Finding]:
    loader = LoaderBegan(step=0, loader="loader 1", sampler="shuffled", batches=batches)
    parts = [loader] if batches else []
    return RateRisesAgain().check(window(series("lr", 0.01 * rate), *parts))


def test_a_cosine_that_goes_on_within_a_pass() -> None:
    [finding] = check(cosine(20), batches=100)
    assert (finding.severity, finding.step) == (Severity.WARNING, 10)
    assert "fell to almost 0 and climbed back to 0.001 10 times, every 20 steps" in finding.message
    assert "5 times in each pass" in finding.message


@pytest.mark.parametrize("batches", [None, 20])
def test_cycles_of_a_whole_pass_may_be_meant(batches: int | None) -> None:
    [finding] = check(cosine(20), batches)
    assert finding.severity == Severity.INFO


@pytest.mark.parametrize(
    "rate",
    [
        np.ones(200),
        cosine(400),
        cosine(100),
        0.1 + cosine(20),
        0.05 + 0.05 * np.cos(np.pi * (STEPS % 20) / 20),
        np.where(STEPS % 20 < 3, STEPS % 20 / 3, 0.05 + 0.05 * np.cos(np.pi * (STEPS % 20) / 19)),
        np.where(STEPS % 2 == 0, 1.0, 0.0),
    ],
    ids=["constant", "one fall", "two", "not low", "warm restarts", "warm-ups", "alternating"],
)
def test_quiet(rate: np.ndarray) -> None:
    assert check(rate, batches=100) == []


def test_waits_for_steps() -> None:
    with pytest.raises(NotEnoughData):
        check(np.ones(5))
