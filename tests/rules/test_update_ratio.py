"""WeightUpdateRatio of SageMaker Debugger: `num_steps`, `large_threshold`, `small_threshold`
and `epsilon` are called so here too.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from tests.rules.weights import tensors
from tests.rules.windows import gradients, series, window

from mothtrap.core.errors import NotEnoughData
from mothtrap.core.findings import Finding, Severity
from mothtrap.core.window import Matrix, Series
from mothtrap.rules.update_ratio import UpdateRatio

STEPS = 100
PULLED = gradients("l2", {"0.weight": [1.0] * STEPS, "2.weight": [1.0] * STEPS})
GOOD = [1e-3] * 8


def check(
    first: Sequence[float], *parts: Matrix | Series, rule: UpdateRatio | None = None
) -> list[Finding]:
    ratios = tensors("update_ratio", {"0.weight": first, "2.weight": GOOD[: len(first)]})
    return (rule or UpdateRatio()).check(window(ratios, *(parts or (PULLED,)), steps=STEPS))


def test_fires_on_a_weight_that_hardly_changes() -> None:
    [finding] = check([1e-10] * 8)
    assert (finding.severity, finding.step, finding.count) == (Severity.WARNING, 0, 8)
    assert finding.layers == ("0.weight",)
    assert finding.fixes[0].startswith("Too small")


def test_fires_on_a_weight_that_is_replaced_at_every_step() -> None:
    [finding] = check([1e-3, 1e-3, 20.0, 30.0, 40.0, 1e-3])
    assert (finding.step, finding.count, finding.evidence["value"]) == (2, 3, 40.0)
    assert finding.fixes[0].startswith("Too large")


def test_fires_on_a_weight_that_does_not_change_though_it_should() -> None:
    [finding] = check([0.0] * 8)
    assert finding.evidence["value"] == 0.0


@pytest.mark.parametrize(
    ("values", "parts"),
    [
        pytest.param(GOOD, (), id="healthy"),
        pytest.param(
            [0.0] * 8,
            (PULLED, tensors("l2", {"0.weight": list(np.linspace(8.0, 9.0, 8))})),
            id="samples that are exceptions",
        ),
        pytest.param([20.0, 15.0, 1.0, 0.1], (), id="the first steps of Adam"),
        pytest.param([np.inf] * 8, (), id="a weight that began at 0"),
        pytest.param([0.0] * 8, (gradients("l2", {"2.weight": [1.0] * STEPS}),), id="frozen"),
        pytest.param([1e-12] * 8, (PULLED, series("lr", np.zeros(STEPS))), id="a rate of 0"),
        pytest.param(
            [1e-3] * 5 + [1e-12] * 3,
            (PULLED, series("lr", np.geomspace(0.1, 1e-12, STEPS))),
            id="a schedule that decays to 0",
        ),
    ],
)
def test_stays_quiet(values: list[float], parts: tuple[Matrix | Series, ...]) -> None:
    assert check(values, *parts) == []


def test_thresholds_can_be_set() -> None:
    assert check([0.5] * 8, rule=UpdateRatio(large_threshold=0.4)) != []
    assert check([1e-5] * 8, rule=UpdateRatio(small_threshold=1e-4)) != []
    assert check([1e-10] * 8, rule=UpdateRatio(small_threshold=1e-11)) == []
    assert check([20.0], rule=UpdateRatio(samples=1)) != []


def test_changes_over_several_steps_add_up() -> None:
    assert check([3.0] * 8) == []
    assert check([3.0] * 8, rule=UpdateRatio(num_steps=4)) != []
    assert check([5e-9] * 8, rule=UpdateRatio(num_steps=4)) == []


def test_epsilon_is_added_to_the_norm() -> None:
    tiny = tensors("l2", {"0.weight": [1e-9] * 8, "2.weight": [1.0] * 8})
    assert check([15.0] * 8, PULLED, tiny) == []
    assert check([15.0] * 8, PULLED, tiny, rule=UpdateRatio(epsilon=1e-12)) != []


def test_cannot_judge_a_look_or_two() -> None:
    with pytest.raises(NotEnoughData):
        check([1e-10, 1e-10])
