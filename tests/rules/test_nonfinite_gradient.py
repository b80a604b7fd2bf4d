from __future__ import annotations

import pytest
from tests.rules.windows import gradients, window

from mothtrap.core.errors import NotEnoughData
from mothtrap.core.facts.nonfinite import FirstBadOperation
from mothtrap.core.findings import Severity
from mothtrap.rules.nonfinite_gradient import NonfiniteGradient

CLEAN = [0.0] * 4


def test_names_the_layer_nearest_to_the_loss_first() -> None:
    nan = {"embed.weight": [0, 0, 3, 3], "mid.weight": [0, 0, 2, 2], "head.weight": CLEAN}
    inf = dict.fromkeys(nan, CLEAN)
    [finding] = NonfiniteGradient().check(window(gradients("nan", nan), gradients("inf", inf)))
    assert finding.severity is Severity.ERROR
    assert finding.layers == ("mid.weight", "embed.weight")
    assert (finding.step, finding.last_step, finding.count) == (2, 3, 2)
    assert finding.location == "model.py:2"
    assert finding.evidence["nan"] == 2


def test_fires_on_infinite_values_alone() -> None:
    [finding] = NonfiniteGradient().check(
        window(gradients("nan", {"w": CLEAN}), gradients("inf", {"w": [0, 1, 0, 0]}))
    )
    assert (finding.step, finding.count) == (1, 1)


def test_stays_quiet_on_steps_that_loss_scaling_skipped() -> None:
    nan = gradients("nan", {"w": [9, 9, 0, 0]}, skipped=[0, 1])
    inf = gradients("inf", {"w": [1, 1, 0, 0]}, skipped=[0, 1])
    assert NonfiniteGradient().check(window(nan, inf, skipped=[0, 1])) == []


def test_stays_quiet_on_gradients_that_the_step_does_not_own() -> None:
    absent = [(0, "w"), (2, "w")]
    nan = gradients("nan", {"w": CLEAN}, absent=absent)
    inf = gradients("inf", {"w": CLEAN}, absent=absent)
    assert NonfiniteGradient().check(window(nan, inf)) == []


def test_cannot_judge_without_gradients() -> None:
    with pytest.raises(NotEnoughData, match="no gradient"):
        NonfiniteGradient().check(window(steps=3))


@pytest.mark.parametrize("step", [0, 1])
def test_names_the_operation_whose_derivative_is_infinite(step: int) -> None:
    slope = FirstBadOperation(
        step=step, operation="norm", inputs=("from 0 to 2",), backward=True, location="a.py:3"
    )
    nan, inf = gradients("nan", {"w": [0, 3, 3, 3]}), gradients("inf", {"w": CLEAN})
    [finding] = NonfiniteGradient().check(window(nan, inf, slope))
    assert "the derivative of norm is infinite (from 0 to 2)" in finding.message
    assert (finding.step, finding.location) == (1, "a.py:3")
    [fix] = finding.fixes
    assert "sqrt((x ** 2).sum() + 1e-12)" in fix
