from __future__ import annotations

import numpy as np
import pytest
from tests.rules.looks import units
from tests.rules.windows import window

from mothtrap.core.errors import NotApplicable, NotEnoughData
from mothtrap.core.findings import Severity
from mothtrap.rules.saturated_activation import SaturatedActivation

RNG = np.random.default_rng(0)
CALM = RNG.normal(size=(64, 16))
FLAT = 15 + CALM  # every input of every unit beyond 9.5


def check(*looks: np.ndarray, rule: SaturatedActivation | None = None, **about):
    seen = [units(step, inputs, **about) for step, inputs in enumerate(looks)]
    return (rule or SaturatedActivation()).check(window(*seen))


def test_fires_on_units_that_are_all_at_the_flat_ends() -> None:
    [finding] = check(CALM, FLAT, FLAT, FLAT)
    assert (finding.severity, finding.step, finding.count) == (Severity.WARNING, 1, 3)
    assert (finding.layers, finding.location) == (("1",), "model.py:1")
    assert "100 % of the units" in finding.message


def test_fires_when_most_inputs_lie_beyond_a_derivative_of_a_hundredth() -> None:
    [finding] = check(*[30 * CALM] * 3)
    assert "derivative is below 1e-2" in finding.message
    assert finding.evidence["beyond_share"] > 0.9


def test_stays_quiet_on_inputs_around_0_and_on_some_that_are_far() -> None:
    assert check(*[CALM] * 4) == []
    assert check(*[3 * CALM] * 4) == []


def test_stays_quiet_on_one_look_and_on_units_that_came_back() -> None:
    assert check(CALM, FLAT) == []
    assert check(FLAT, FLAT, CALM) == []


def test_the_output_of_a_model_may_be_at_the_ends() -> None:
    with pytest.raises(NotApplicable, match="output"):
        check(*[FLAT] * 3, last=True)


def test_cannot_judge_without_modules_or_from_few_examples() -> None:
    with pytest.raises(NotApplicable, match="functions"):
        SaturatedActivation().check(window(steps=9))
    with pytest.raises(NotEnoughData, match="fewer than 32"):
        check(*[FLAT[:4]] * 3)


# What SageMaker Debugger's SaturatedActivation can be told, row by row.


@pytest.mark.parametrize(
    ("function", "side", "bound"),
    [("tanh", "min", -9.5), ("tanh", "max", 9.5), ("sigmoid", "min", -23), ("sigmoid", "max", 17)],
)
def test_inputs_beyond_each_bound_count_as_saturated(function, side, bound) -> None:
    # Share of inputs within soft bounds kept out of it: this is about the hard ones.
    defaults = {"soft_share": 2.0}
    rule = SaturatedActivation(**defaults)
    beyond = np.full((64, 16), bound + np.sign(bound) * 0.5)
    within = np.full((64, 16), bound - np.sign(bound) * 0.5)
    assert check(*[beyond] * 2, rule=rule, function=function) != []
    assert check(*[within] * 2, rule=rule, function=function) == []
    wider = SaturatedActivation(**defaults, **{f"threshold_{function}_{side}": 1000.0})
    assert check(*[beyond] * 2, rule=wider, function=function) == []
    closer = SaturatedActivation(**defaults, **{f"threshold_{function}_{side}": 8.0})
    assert check(*[within] * 2, rule=closer, function=function) != []


def test_threshold_inactivity_is_the_share_of_inputs_that_keeps_a_unit_active() -> None:
    mixed = np.where(RNG.random((1000, 16)) < 0.05, 0.5, 12.0)  # 1 input in 20 is fine
    assert check(*[mixed] * 2, rule=SaturatedActivation(soft_share=2.0)) == []
    looser = SaturatedActivation(soft_share=2.0, threshold_inactivity=10.0)
    assert check(*[mixed] * 2, rule=looser) != []


def test_threshold_layer_is_the_share_of_units() -> None:
    some = CALM.copy()
    some[:, :6] = 12.0
    assert check(*[some] * 2) == []
    [finding] = check(*[some] * 2, rule=SaturatedActivation(threshold_layer=25.0))
    assert finding.evidence["inactive_percent"] == 37.5


def test_tensor_regex_chooses_modules() -> None:
    assert check(*[FLAT] * 3, rule=SaturatedActivation(layer_regex="^[1-2]$")) != []
    with pytest.raises(NotApplicable):
        check(*[FLAT] * 3, rule=SaturatedActivation(layer_regex="gate"))


def test_a_handful_of_units_is_no_layer() -> None:
    far = np.full((64, 4), 20.0)
    with pytest.raises(NotApplicable, match="under 8 units"):
        check(far, far, far)


def test_no_advice_on_the_learning_rate_before_the_first_step() -> None:
    far = np.full((64, 16), 20.0)
    [finding] = check(far, far, far)
    assert finding.step == 0
    assert not any("learning rate" in fix for fix in finding.fixes)
    near = np.zeros((64, 16))
    [later] = check(near, near, far, far, far)
    assert later.step == 2
    assert any("learning rate" in fix for fix in later.fixes)
