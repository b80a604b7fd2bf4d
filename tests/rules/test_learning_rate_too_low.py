from __future__ import annotations

import numpy as np
import pytest
from tests.rules.weights import MADE, facts, tensors
from tests.rules.windows import loss, noise, series, window

from mothtrap.core.errors import NotApplicable, NotEnoughData
from mothtrap.core.findings import Finding, Severity
from mothtrap.core.window import Matrix, Series
from mothtrap.rules.learning_rate_too_low import LearningRateTooLow

FLAT = 2.3 + noise(300, scale=0.02)
FALLING = 1.9 + 0.4 * np.exp(-np.linspace(0, 5, 300))


def ratios(value: float, head: float | None = None) -> Matrix:
    middle = value if head is None else head
    return tensors("update_ratio", {"0.weight": [value] * 8, "2.weight": [middle] * 8})


WARMING = tensors(
    "update_ratio",
    {"0.weight": 1e-3 * np.arange(10) / 10},
    steps=[0, 1, 2, 4, 8, 16, 32, 64, 128, 192],
)


def check(*parts: Series | Matrix, rate: float | np.ndarray = 1e-7) -> list[Finding]:
    rates = series("lr", np.broadcast_to(rate, 300))
    return LearningRateTooLow().check(window(rates, facts(), *parts, steps=300))


def test_fires_when_nothing_has_moved() -> None:
    [finding] = check(loss(FLAT), ratios(1e-6))
    assert (finding.severity, finding.step) == (Severity.WARNING, 0)
    assert finding.location == MADE
    assert finding.evidence["moved_share"] == pytest.approx(3e-4)
    assert finding.fixes[0] == "Raise the learning rate from 1e-07 to about 1e-04."


@pytest.mark.parametrize(
    ("values", "change", "rate"),
    [
        pytest.param(FALLING, ratios(1e-6), 1e-7, id="the loss falls"),
        pytest.param(FLAT, ratios(1e-3), 1e-3, id="weights move"),
        pytest.param(FLAT, ratios(1.3e-4), 1e-2, id="few steps so far, of the usual size"),
        pytest.param(FLAT, ratios(1e-9, head=1e-3), 1e-3, id="the head alone is trained"),
        pytest.param(FLAT, ratios(0.0), 1e-3, id="no gradient at all: another fault"),
        pytest.param(FLAT, WARMING, np.linspace(0, 1e-3, 300), id="warm-up"),
        pytest.param(FLAT, ratios(1e-6), np.geomspace(0.1, 1e-6, 300), id="a rate that decayed"),
        pytest.param(FLAT, ratios(1e-6), 0.0, id="a rate of 0"),
        pytest.param(-FLAT, ratios(1e-6), 1e-7, id="a loss without a scale"),
    ],
)
def test_stays_quiet(values: np.ndarray, change: Matrix, rate: float | np.ndarray) -> None:
    assert check(loss(values), change, rate=rate) == []


SPEEDING_UP = 2.3 - 0.8 * np.linspace(0, 1, 300) ** 2 + noise(300, scale=0.01)


def test_fires_when_the_loss_falls_ever_faster_and_is_still_high() -> None:
    [finding] = check(loss(SPEEDING_UP), ratios(1e-3), rate=1e-4)
    assert finding.severity is Severity.WARNING
    assert "falls as fast as at the beginning" in finding.message
    assert finding.fixes[0] == "Raise the learning rate from 0.0001 to about 1e-03."


def test_a_large_epsilon_is_the_first_thing_to_change() -> None:
    rates = series("lr", np.full(300, 1e-4))
    seen = window(rates, facts(epsilon=0.1), loss(SPEEDING_UP), ratios(1e-3), steps=300)
    [finding] = LearningRateTooLow().check(seen)
    assert finding.message.endswith("divides by a large epsilon, 0.1")
    assert finding.fixes[0].startswith("Use the default epsilon")


@pytest.mark.parametrize(
    ("values", "change"),
    [
        pytest.param(SPEEDING_UP, ratios(3e-3), id="steps of the usual size"),
        pytest.param(SPEEDING_UP - 1.2, ratios(1e-3), id="the loss is low at the end"),
        pytest.param(SPEEDING_UP[::-1].copy(), ratios(1e-3), id="the loss rises"),
        pytest.param(
            2.3 * np.geomspace(1, 0.6, 300) + noise(300), ratios(1e-3), id="falls more slowly"
        ),
        pytest.param(SPEEDING_UP[:250], ratios(1e-3), id="few steps"),
    ],
)
def test_stays_quiet_about_losses_that_fall(values: np.ndarray, change: Matrix) -> None:
    assert check(loss(values), change, rate=1e-4) == []


def test_says_why_it_cannot_judge() -> None:
    with pytest.raises(NotEnoughData, match="no weight update"):
        check(loss(FLAT))
    with pytest.raises(NotEnoughData, match="fewer than 200 losses"):
        check(loss(FLAT[:50]), ratios(1e-6))
    players = (loss(FLAT, of="d", optimizers=("D",)), loss(FLAT, of="g", optimizers=("G",)))
    with pytest.raises(NotApplicable):
        check(*players, ratios(1e-6))
