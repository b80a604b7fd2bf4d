from __future__ import annotations

import numpy as np
import pytest
from tests.rules.windows import LOSS, loss, loss_call_of, noise, series, window

from mothtrap.core.errors import NotApplicable, NotEnoughData
from mothtrap.core.fact import Fact
from mothtrap.core.facts.evaluations import BootstrappedTargets
from mothtrap.core.facts.losses import LossCall
from mothtrap.core.findings import Finding, Severity
from mothtrap.core.window import Series
from mothtrap.rules.loss_spike import LossSpike

N = 200
COURSE = 1.0 + np.exp(-np.arange(N) / 30) + noise(N, scale=0.03)
AT = 120


def check(values: np.ndarray, *parts: Series | Fact) -> list[Finding]:
    return LossSpike().check(window(loss(values), *parts))


def spiked(height: float, *, back_after: int) -> np.ndarray:
    values = COURSE.copy()
    values[AT : AT + back_after] += height
    return values


def test_does_not_apply_to_a_model_that_learns_from_its_own_output() -> None:
    seen = BootstrappedTargets(step=9, module="target", steps=10)
    with pytest.raises(NotApplicable, match="own output"):
        LossSpike().check(window(loss(spiked(5.0, back_after=N)), seen))


def test_a_spike_that_does_not_recover_is_a_warning() -> None:
    [finding] = check(spiked(5.0, back_after=N))
    assert finding.severity is Severity.WARNING
    assert (finding.step, finding.location) == (AT, LOSS)
    assert "still at least 2x as high" in finding.message


def test_a_spike_that_recovers_is_a_note() -> None:
    [finding] = check(spiked(5.0, back_after=5))
    assert finding.severity is Severity.INFO
    assert "it recovered" in finding.message


def test_near_the_floor_what_is_left_of_a_spike_is_nothing() -> None:
    values = np.concatenate([np.geomspace(1.0, 1e-3, 100), 1e-3 * (1 + noise(100, scale=0.1))])
    values[150] = 0.4
    values[151:] *= 3
    [finding] = check(values)
    assert finding.severity is Severity.INFO


def test_the_spike_that_did_not_heal_is_told_first() -> None:
    values = spiked(5.0, back_after=N)
    values[70] += 9.0
    [finding] = check(values)
    assert (finding.severity, finding.step, finding.count) == (Severity.WARNING, AT, 2)


@pytest.mark.parametrize(
    "values",
    [
        pytest.param(COURSE, id="a course with noise"),
        pytest.param(spiked(0.2, back_after=1), id="small next to the level"),
        pytest.param(np.exp(noise(N, scale=0.8)), id="heavy tails"),
        pytest.param(1e-4 * np.where(np.arange(N) == 0, 2e4, spiked(9, back_after=9)), id="floor"),
        pytest.param(spiked(5.0, back_after=N)[: AT + 20], id="not known yet"),
        pytest.param(np.zeros(N), id="0"),
    ],
)
def test_stays_quiet(values: np.ndarray) -> None:
    assert check(values) == []


def test_a_restart_of_the_learning_rate_explains_a_jump() -> None:
    rate = np.where(np.arange(N) < AT, 1e-3, 1e-1)
    assert check(spiked(5.0, back_after=N), series("lr", rate)) == []


def test_does_not_apply_to_a_gan_or_negative_losses() -> None:
    turns = np.arange(0, 2 * N, 2)
    with pytest.raises(NotApplicable, match="compete"):
        LossSpike().check(
            window(
                loss(COURSE, of="gan.py:5", optimizers=("D",), steps=turns),
                loss(COURSE, of="gan.py:9", optimizers=("G",), steps=turns + 1),
            )
        )
    with pytest.raises(NotApplicable, match="negative"):
        check(-COURSE)


def test_cannot_judge_a_few_steps() -> None:
    with pytest.raises(NotEnoughData, match="81"):
        check(COURSE[:80])


def test_one_row_without_an_axis_is_a_small_batch() -> None:
    call = LossCall(step=0, operation="elementwise", prediction_shape=())
    with pytest.raises(NotApplicable, match="so small"):
        check(spiked(9.0, back_after=N), call)


@pytest.mark.parametrize("rows", [1, 4])
def test_one_hard_row_makes_a_spike_of_a_small_batch(rows: int) -> None:
    with pytest.raises(NotApplicable, match="so small"):
        check(spiked(9.0, back_after=N), loss_call_of(rows))


def test_a_spike_of_a_larger_batch_is_a_spike() -> None:
    assert check(spiked(9.0, back_after=N), loss_call_of(32))
