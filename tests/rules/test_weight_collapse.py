from __future__ import annotations

import msgspec
import numpy as np
import pytest
from tests.rules.classified import classified
from tests.rules.weights import facts, tensors
from tests.rules.windows import loss, noise, window

from mothtrap.core.errors import NotEnoughData
from mothtrap.core.findings import Finding, Severity
from mothtrap.core.window import Matrix
from mothtrap.rules.weight_collapse import WeightCollapse

FLAT = 2.3 + noise(200, scale=0.02)
FALLING = 2.3 * np.exp(-np.arange(200) / 50) + 0.05
SHRINKING = [10.0, 9.9, 9.5, 8.0, 6.0, 3.0, 1.0, 0.3]
STEADY = [10.0] * 8


def sizes(first: list[float], second: list[float], shape: tuple[int, ...] = (8, 8)) -> Matrix:
    return tensors("l2", {"0.weight": first, "2.weight": second}, shape=shape)


def check(norms: Matrix, values: np.ndarray = FLAT) -> list[Finding]:
    return WeightCollapse().check(window(loss(values), norms))


def test_fires_when_all_weights_have_shrunk_to_nothing() -> None:
    [finding] = check(sizes(SHRINKING, SHRINKING))
    assert (finding.severity, finding.step) == (Severity.ERROR, 2)
    assert finding.evidence["value"] == pytest.approx(0.03)


def test_warns_of_a_single_layer_and_names_it() -> None:
    [finding] = check(sizes(STEADY, SHRINKING))
    assert (finding.severity, finding.layers) == (Severity.WARNING, ("2.weight",))
    assert finding.location == "model.py:2"


@pytest.mark.parametrize(
    ("first", "second", "values"),
    [
        pytest.param(SHRINKING, SHRINKING, FALLING, id="the loss falls"),
        pytest.param(STEADY, [8.0] * 8, FLAT, id="weights stay"),
        pytest.param([10.0] + [5.0] * 7, STEADY, FLAT, id="usual decay"),
        pytest.param([0.0] * 8, STEADY, FLAT, id="weights that are 0 from the start"),
    ],
)
def test_stays_quiet(first: list[float], second: list[float], values: np.ndarray) -> None:
    assert check(sizes(first, second), values) == []


def test_fires_where_only_a_penalty_has_fallen_and_the_model_guesses() -> None:
    penalized = FALLING * 100 + 2.4
    norms, calls = sizes(SHRINKING, SHRINKING), classified([[25, 25], [25, 25]])
    assert WeightCollapse().check(window(loss(penalized), norms, *calls)) == []
    calls = [msgspec.structs.replace(call, prediction_spread=1e-4) for call in calls]
    [finding] = WeightCollapse().check(window(loss(penalized), norms, *calls))
    assert finding.severity is Severity.ERROR
    assert WeightCollapse().check(window(loss(FALLING), norms, *calls)) == []


def test_a_weight_that_is_one_number_may_end_near_0() -> None:
    """The slope of a line through points falls from a random 3 to the 0.2 that is right."""
    with pytest.raises(NotEnoughData, match="samples of the weights"):
        check(sizes(SHRINKING, SHRINKING, shape=()))
    assert check(sizes(SHRINKING, SHRINKING, shape=(2, 1))) != []


def test_says_why_it_cannot_judge() -> None:
    with pytest.raises(NotEnoughData, match="samples of the weights"):
        check(sizes(SHRINKING[:3], SHRINKING[:3]))
    with pytest.raises(NotEnoughData, match="loss history"):
        check(sizes(SHRINKING, SHRINKING), -FLAT)


def test_a_penalty_is_the_first_fix_if_no_optimizer_decays_weights() -> None:
    norms = sizes(SHRINKING, SHRINKING)
    calls = classified([[4, 4], [4, 4]])
    penalized = [msgspec.structs.replace(call, alone=False) for call in calls]
    for seen, decay, expected in (
        (penalized, 0.0, "Check penalties on weights"),
        (penalized, 0.5, "PyTorch, JAX: Lower the weight decay"),
        (calls, 0.0, "PyTorch, JAX: Lower the weight decay"),
    ):
        parts = loss(FLAT), norms, facts(decay=decay), *seen
        [finding] = WeightCollapse().check(window(*parts))
        assert finding.fixes[0].startswith(expected.removeprefix("PyTorch, JAX: "))
