"""TensorVariance of SageMaker Debugger: `collection_names` and `tensor_regex` are patterns in
`tensors`; `max_threshold` and `min_threshold` are called so here too.
"""

from __future__ import annotations

import pytest
from tests.rules.weights import tensors
from tests.rules.windows import window

from mothtrap.core.errors import ConfigError, NotApplicable, NotEnoughData
from mothtrap.core.findings import Finding, Severity
from mothtrap.rules.tensor_variance import TensorVariance

NAMED = "activations:*"


def check(rule: TensorVariance, deviations: list[float]) -> list[Finding]:
    both = {"relu": [1.0] * len(deviations), "head": deviations}
    steps = [50 * row for row in range(len(deviations))]
    return rule.check(window(tensors("std", both, kind="activation", steps=steps)))


def test_fires_above_the_maximum() -> None:
    [finding] = check(TensorVariance(tensors=NAMED, max_threshold=8.0), [2.0, 3.0, 4.0])
    assert (finding.severity, finding.step, finding.count) == (Severity.WARNING, 50, 2)
    assert (finding.layers, finding.evidence["value"]) == (("head",), 9.0)


def test_fires_below_the_minimum() -> None:
    [finding] = check(TensorVariance(tensors=NAMED, min_threshold=0.01), [1.0, 0.05])
    assert (finding.step, finding.evidence["limit"]) == (50, 0.01)


def test_both_bounds_can_be_set() -> None:
    rule = TensorVariance(tensors=NAMED, max_threshold=8.0, min_threshold=0.5)
    assert check(rule, [1.0, 2.0]) == []
    assert check(rule, [1.0, 0.5]) != []
    assert check(rule, [1.0, 3.0]) != []


def test_the_bounds_themselves_are_allowed() -> None:
    rule = TensorVariance(tensors=NAMED, max_threshold=4.0, min_threshold=1.0)
    assert check(rule, [1.0, 2.0]) == []


def test_tensors_without_a_finite_value_have_no_variance() -> None:
    rule = TensorVariance(tensors=NAMED, max_threshold=4.0, min_threshold=1.0)
    assert check(rule, [1.0, float("nan")]) == []


def test_it_needs_what_is_named_and_nothing_else() -> None:
    [need] = TensorVariance(tensors="gradients", max_threshold=1.0).needs
    assert (need.kinds, need.statistics) == (("gradient",), ("std",))
    with pytest.raises(ConfigError, match="NUM011"):
        TensorVariance(tensors="nothing")


def test_says_why_it_cannot_judge() -> None:
    with pytest.raises(NotApplicable, match="no bound"):
        check(TensorVariance(tensors=NAMED), [1.0])
    with pytest.raises(NotApplicable, match="no tensors are selected"):
        check(TensorVariance(max_threshold=1.0), [1.0])
    with pytest.raises(NotEnoughData):
        check(TensorVariance(tensors="gradients", max_threshold=1.0), [1.0])
