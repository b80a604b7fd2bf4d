from __future__ import annotations

import numpy as np
import pytest
from tests.rules.windows import inactive, loss, window

from mothtrap.core.errors import NotApplicable, NotEnoughData
from mothtrap.core.facts.losses import LossCall, TargetSample
from mothtrap.core.findings import Finding, Severity
from mothtrap.core.window import Matrix
from mothtrap.rules.unscaled_targets import UnscaledTargets

SLOW = np.linspace(9e10, 8.9e10, 200)


def call(
    step: int, reached: float, *, mean: float = 3e5, low: float = 8e4, high: float = 9e5
) -> LossCall:
    return LossCall(
        step=step,
        operation="elementwise",
        location="train.py:9",
        targets=TargetSample(dtype="float32", count=32, least=low, greatest=high, mean=mean),
        predicted_least=-reached / 2,
        predicted_greatest=reached,
    )


def check(*calls: LossCall | Matrix, losses: np.ndarray = SLOW) -> list[Finding]:
    return UnscaledTargets().check(window(loss(losses), *calls))


def test_predictions_that_never_come_near_the_targets() -> None:
    [finding] = check(*(call(step, 0.5 + step) for step in range(0, 200, 32)))
    assert (finding.severity, finding.step) == (Severity.WARNING, 0)
    assert finding.location == "train.py:9"
    assert "the targets range from 8e+04 to 9e+05" in finding.message
    assert "no prediction exceeds 192 after 192 steps" in finding.message


def test_targets_on_both_sides_of_0() -> None:
    around = {"mean": 0.0, "low": -2000.0, "high": 2500.0}
    assert check(*(call(step, 0.1 * step, **around) for step in range(0, 200, 32)))
    assert not check(*(call(step, 20.0, **around) for step in range(0, 200, 32)))  # all it can
    assert not check(*(call(step, 300.0, **around) for step in range(0, 200, 32)))


def test_what_breaks_in_its_first_steps() -> None:
    grows = np.concatenate([9e10 * 30.0 ** np.arange(6), np.full(100, np.nan)])
    [finding] = check(call(0, 1.0), call(4, 1e12), losses=grows)
    assert "the loss is not finite after 6 steps" in finding.message
    stays = np.concatenate([np.full(6, 9e10), np.full(100, np.nan)])
    with pytest.raises(NotEnoughData):
        check(call(0, 1.0), call(4, 2.0), losses=stays)


def test_units_that_die_in_the_first_steps() -> None:
    boxes = [call(step, 0.3 + step, mean=90.0, low=0.0, high=220.0) for step in range(0, 200, 32)]
    steps = range(0, 160, 16)
    dies = inactive({"net.1": [0.1, 0.4, 0.8] + [0.9] * 7}, steps=steps)
    [finding] = check(*boxes, dies)
    assert (finding.severity, finding.step) == (Severity.WARNING, 0)
    assert "the first predictions do not exceed 0.3" in finding.message
    assert "90 % of the units of net.1 are no longer active" in finding.message
    assert finding.fixes[0].startswith("Scale the targets")
    assert check(*boxes, inactive({"net.1": [0.1, 0.4] + [0.5] * 8}, steps=steps)) == []
    assert check(*boxes, inactive({"net.1": [0.9] * 10}, steps=steps)) == []  # dead before


def test_steps_that_only_bring_predictions_to_the_size_of_the_targets() -> None:
    around = {"mean": 0.0, "low": -80.0, "high": 90.0}

    def grows(until: int, steps: int) -> list[LossCall]:
        return [call(step, 0.2 + 8.9 * step / until, **around) for step in range(0, steps, 8)]

    [finding] = check(*grows(40, 241))
    assert (finding.severity, finding.step) == (Severity.WARNING, 0)
    assert "the first predictions do not exceed 0.2, and it took more than 32 of 240 steps" in (
        finding.message
    )
    assert check(*grows(40, 601)) == []  # a small part of the run
    assert check(*grows(16, 241)) == []
    prices = [call(step, 0.2 + 3e3 * step) for step in range(0, 241, 8)]  # half of the mean: 150e3
    [finding] = check(*prices)
    assert "it took more than 48 of 240 steps" in finding.message
    scaled = {"mean": 0.0, "low": -2.0, "high": 3.0}
    assert check(*(call(step, 0.001 * step, **scaled) for step in range(0, 241, 8))) == []


@pytest.mark.parametrize(
    "last",
    [
        pytest.param({"reached": 2.9e5}, id="reached"),
        pytest.param({"reached": 1.0, "mean": 0.4, "low": 0.0, "high": 1.0}, id="of scale 1"),
        pytest.param({"reached": 9.0, "mean": 8.0, "low": 0.0, "high": 255.0}, id="mostly small"),
    ],
)
def test_stays_quiet(last: dict[str, float]) -> None:
    assert check(*(call(step, **last) for step in range(0, 200, 32))) == []


def test_waits_and_does_not_apply() -> None:
    with pytest.raises(NotEnoughData, match="100 steps"):
        check(call(0, 1.0), call(32, 1.0), call(64, 1.0))
    with pytest.raises(NotApplicable):
        check(LossCall(step=0, operation="cross_entropy"))
