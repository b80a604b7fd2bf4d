from __future__ import annotations

import numpy as np
import pytest
from tests.rules.weights import MADE, facts, tensors
from tests.rules.windows import gradients, loss, noise, window

from mothtrap.core.errors import NotApplicable, NotEnoughData
from mothtrap.core.facts.optimizers import OptimizerFacts
from mothtrap.core.findings import Finding, Severity
from mothtrap.core.window import Matrix
from mothtrap.rules.weight_decay_dominates import WeightDecayDominates

FLAT = 2.3 + noise(200, scale=0.02)
FALLING = 2.3 * np.exp(-np.arange(200) / 50) + 0.05
SHRINKING = [10.0, 9.5, 9.0, 8.0, 6.0, 4.0, 1.5, 0.3]


def sizes(values: list[float]) -> Matrix:
    return tensors("l2", {"0.weight": values, "2.weight": [v / 2 for v in values]})


def pulls(value: float) -> Matrix:
    return gradients("l2", {"0.weight": [value] * 200, "2.weight": [value] * 200})


def check(
    known: OptimizerFacts,
    *parts: Matrix,
    values: np.ndarray = FLAT,
) -> list[Finding]:
    return WeightDecayDominates().check(window(loss(values), known, *parts))


def sgd(decay: float) -> OptimizerFacts:
    return facts(kind="SGD", rate=0.1, decay=decay)


def test_fires_when_decay_outweighs_the_gradient_and_weights_shrink() -> None:
    [finding] = check(sgd(0.5), sizes(SHRINKING), pulls(0.1))
    assert (finding.severity, finding.step) == (Severity.WARNING, 0)
    assert finding.location == MADE
    assert finding.evidence["weight_decay"] == 0.5


def test_fires_on_decoupled_decay_that_is_all_of_the_update() -> None:
    known = facts(kind="AdamW", rate=1e-2, decay=5.0, decoupled=True)
    change = tensors("update_ratio", {"0.weight": [0.051] * 8, "2.weight": [0.052] * 8})
    [finding] = check(known, sizes(SHRINKING), change)
    assert finding.evidence["value"] == pytest.approx(0.97, abs=0.01)
    grown = tensors("update_ratio", {"0.weight": [0.5] * 8, "2.weight": [0.5] * 8})
    assert check(known, sizes(SHRINKING), grown) == []


def test_fires_when_the_loss_stops_falling_at_a_high_level() -> None:
    shrunk = [10.0, 9.0, 8.0, 7.5, 7.0, 7.0, 7.0, 7.0]
    stuck = 1.0 + 1.3 * np.exp(-np.arange(200) / 15) + noise(200, scale=0.01)
    [finding] = check(sgd(0.5), sizes(shrunk), pulls(0.1), values=stuck)
    assert "the weights have shrunk to 70 %" in finding.message
    falling = 1.0 + 1.3 * np.exp(-np.arange(200) / 80)
    assert check(sgd(0.5), sizes(shrunk), pulls(0.1), values=falling) == []
    assert check(sgd(0.5), sizes(shrunk), pulls(0.1), values=stuck - 0.8) == []
    assert check(sgd(5e-4), sizes(shrunk), pulls(1.0), values=stuck) == []


@pytest.mark.parametrize(
    ("known", "norms", "pull", "values"),
    [
        pytest.param(sgd(0.5), SHRINKING, 0.1, FALLING, id="the loss falls"),
        pytest.param(sgd(5e-4), SHRINKING, 1.0, FLAT, id="the gradient is stronger"),
        pytest.param(sgd(5e-4), [10.0] * 8, 1e-9, FLAT, id="the gradient has vanished"),
        pytest.param(sgd(0.5), [10.0] * 8, 0.1, FLAT, id="weights are in balance"),
    ],
)
def test_stays_quiet(
    known: OptimizerFacts, norms: list[float], pull: float, values: np.ndarray
) -> None:
    assert check(known, sizes(norms), pulls(pull), values=values) == []


def test_does_not_apply_without_decay() -> None:
    with pytest.raises(NotApplicable, match="no optimizer has weight decay"):
        check(sgd(0.0), sizes(SHRINKING), pulls(0.1))


def test_says_why_it_cannot_judge() -> None:
    with pytest.raises(NotEnoughData, match="samples of the weights"):
        check(sgd(0.5), sizes(SHRINKING[:2]), pulls(0.1))
    with pytest.raises(NotEnoughData, match="loss history"):
        check(sgd(0.5), sizes(SHRINKING), pulls(0.1), values=FLAT[:20])
    with pytest.raises(NotEnoughData, match="no optimizer"):
        WeightDecayDominates().check(window(loss(FLAT)))
