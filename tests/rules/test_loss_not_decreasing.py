from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from tests.rules.windows import LOSS, loss, noise, series, window

from mothtrap.core.errors import NotApplicable, NotEnoughData
from mothtrap.core.facts.evaluations import BootstrappedTargets
from mothtrap.core.facts.losses import LossCall
from mothtrap.core.findings import Finding, Severity
from mothtrap.core.window import Series
from mothtrap.rules.loss_not_decreasing import LossNotDecreasing

N = 300
FLAT = 2.3 + noise(N, scale=0.1)


def check(*parts: Series) -> list[Finding]:
    return LossNotDecreasing().check(window(*parts))


def test_fires_on_a_flat_loss_from_its_first_step() -> None:
    [finding] = check(loss(FLAT))
    assert finding.severity is Severity.WARNING
    assert (finding.step, finding.location) == (0, LOSS)


def test_fires_on_a_loss_that_does_not_move_at_all() -> None:
    [finding] = check(loss(np.full(N, 1.5)))
    assert finding.severity is Severity.WARNING


def test_fires_when_the_learning_rate_is_0() -> None:
    assert check(loss(FLAT), series("lr", np.zeros(N)))


def test_begins_after_warm_up() -> None:
    rate = np.minimum(np.arange(N) / 50, 1.0)
    [finding] = check(loss(FLAT), series("lr", rate))
    assert finding.step == 5


def test_cannot_judge_while_the_rate_still_rises() -> None:
    with pytest.raises(NotEnoughData, match="warming up"):
        check(loss(FLAT), series("lr", np.arange(N) / 1000))


def falling(floor: float) -> np.ndarray:
    return floor + 2.0 * np.exp(-np.arange(N) / 30)


@pytest.mark.parametrize(
    "values",
    [
        pytest.param(falling(0.5) + noise(N, scale=0.05), id="fell, then a plateau"),
        pytest.param(falling(0.0), id="fell to its floor"),
        pytest.param(2.3 - 0.001 * np.arange(N) + noise(N, scale=0.2), id="slow and noisy"),
        pytest.param(4.2 - 0.0002 * np.arange(N), id="very slow but steady"),
        pytest.param(np.zeros(N), id="0 from the start"),
        pytest.param(
            np.concatenate([falling(0.2)[:150], np.linspace(0.2, 2.3, 150)]), id="fell, then rose"
        ),
    ],
)
def test_stays_quiet(values: np.ndarray) -> None:
    assert check(loss(values)) == []


def test_is_silent_about_a_beginning_that_left_the_window() -> None:
    with pytest.raises(NotApplicable, match="no longer in the window"):
        check(loss(FLAT, total=5000))


def test_a_loss_that_has_fallen_since_ends_an_earlier_finding() -> None:
    late = dataclasses.replace(loss(FLAT / 4, total=5000), first=2.3)
    assert check(late) == []
    assert LossNotDecreasing.passes


def test_does_not_apply_to_losses_that_change_sign() -> None:
    with pytest.raises(NotApplicable, match="negative"):
        check(loss(noise(N)))


def test_does_not_apply_to_the_losses_of_a_gan() -> None:
    turns = np.arange(0, 2 * N, 2)
    with pytest.raises(NotApplicable, match="compete"):
        check(
            loss(FLAT, of="gan.py:5", optimizers=("D",), steps=turns),
            loss(FLAT, of="gan.py:9", optimizers=("G",), steps=turns + 1),
        )


def test_optimizers_that_follow_one_another_play_no_game() -> None:
    # Pretraining, then fine-tuning with another optimizer, was taken for a GAN.
    steps = np.arange(N)
    findings = check(
        loss(FLAT, of="tune.py:5", optimizers=("A",), steps=steps),
        loss(FLAT, of="tune.py:9", optimizers=("B",), steps=steps + N),
    )
    assert findings


def test_judges_the_series_that_it_can() -> None:
    [finding] = check(loss(noise(N), of="policy.py:1"), loss(FLAT, of="value.py:2"))
    assert finding.evidence["series"] == "value.py:2"


def test_cannot_judge_a_few_steps() -> None:
    with pytest.raises(NotEnoughData, match="150"):
        check(loss(FLAT[:140]))


@pytest.mark.parametrize("count", [1, 2, 3, 4, 7])
def test_few_losses_are_judged_without_a_complaint_of_numpy(count: int) -> None:
    rule = LossNotDecreasing(num_steps=1)
    [finding] = rule.check(window(loss(np.full(count, 1.5))))
    assert "was 1.5 in the first 1 step and" in finding.message


BOOTSTRAPPED = BootstrappedTargets(step=9, module="target", steps=10)
GAIN = LossCall(step=0, operation="policy_gain")


@pytest.mark.parametrize("fact", [BOOTSTRAPPED, GAIN])
def test_a_model_that_learns_from_its_own_output_need_not_lower_its_loss(fact) -> None:
    with pytest.raises(NotApplicable, match="its own output"):
        LossNotDecreasing().check(window(loss(np.linspace(20.0, 30.0, 400)), fact))
