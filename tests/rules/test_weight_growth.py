from __future__ import annotations

import numpy as np
import pytest
from tests.rules.weights import sampled, tensors
from tests.rules.windows import window

from mothtrap.core.errors import NotEnoughData
from mothtrap.core.findings import Finding, Severity
from mothtrap.rules.weight_growth import WeightGrowth

STEPS = np.array(sampled(400))


def check(first: np.ndarray, second: np.ndarray | None = None) -> list[Finding]:
    both = {"0.weight": first, "2.weight": first if second is None else second}
    return WeightGrowth().check(window(tensors("l2", both)))


def test_fires_on_weights_that_grow_on_and_on() -> None:
    [finding] = check(1.02**STEPS, 1.01**STEPS)
    assert (finding.severity, finding.step) == (Severity.WARNING, 64)
    assert finding.layers == ("0.weight", "2.weight")


@pytest.mark.parametrize(
    "values",
    [
        pytest.param(1 + 0.02 * STEPS, id="eight times as much, slowly"),
        pytest.param(np.minimum(1 + STEPS, 20.0), id="growth that ends"),
        pytest.param(1 + 3 * np.log1p(STEPS), id="a classifier on data that can be separated"),
        pytest.param(np.ones(len(STEPS)), id="weights that stay"),
        pytest.param(1e-3 * 1.02**STEPS, id="word vectors that began tiny"),
    ],
)
def test_stays_quiet(values: np.ndarray) -> None:
    assert check(values) == []


def test_weights_that_began_at_0_have_nothing_to_compare_with() -> None:
    zero = np.concatenate([[0.0], np.full(len(STEPS) - 1, 5.0)])
    assert check(zero, np.ones(len(STEPS))) == []


def test_cannot_judge_a_few_looks() -> None:
    with pytest.raises(NotEnoughData, match="5 samples"):
        check(np.array([1.0, 100.0, 1e4]))
    with pytest.raises(NotEnoughData, match="100 steps"):
        check(10.0 ** np.arange(7))
