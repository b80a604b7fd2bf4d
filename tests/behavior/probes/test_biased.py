"""A mean residual is named, overall and by segment; shrinkage is left to calibration."""

from __future__ import annotations

import numpy as np
import pytest
from tests.behavior.asking import labels, outcome, people, sure

from mothtrap.behavior.probes.biased import Biased

X = people(3000)
Y = 3 * X.x0.to_numpy() + np.random.default_rng(0).normal(size=3000)


def predict(d):  # type: ignore[no-untyped-def]
    return 3 * d.x0.to_numpy()


@pytest.mark.parametrize(("shift", "word"), [(0.8, "too high by 0.8"), (-0.8, "too low by 0.8")])
def test_a_shift_is_named_once(shift: float, word: str) -> None:
    (finding,) = outcome(Biased(), lambda d: predict(d) + shift, X, Y).findings
    assert word[:-4] in finding.message
    assert abs(abs(float(finding.evidence["value"])) - 0.8) < 0.1  # type: ignore[arg-type]


def test_a_shift_in_a_segment_is_named() -> None:
    found = outcome(Biased(), lambda d: predict(d) - 2 * (d.kind == "d"), X, Y).findings
    overall, finding = found
    assert "segment" not in overall.evidence
    assert finding.evidence["segment"] == "kind = d"
    assert "too low by 2" in finding.message or "too low by 1.9" in finding.message


def test_probabilities_are_compared_with_shares() -> None:
    y = labels(X, 0.12)
    (finding,) = outcome(Biased(), lambda d: sure(d)[:, 1] * 0.7, X, y).findings
    assert "the probability of 1 is too low" in finding.message


def test_fair_models_are_left_alone() -> None:
    assert outcome(Biased(), predict, X, Y).findings == ()
    assert outcome(Biased(), sure, X, labels(X, 0.12)).findings == ()


def test_a_model_that_is_too_unsure_is_not_called_biased_in_segments() -> None:
    """Its probabilities are wrong wherever they are extreme: that is calibration."""
    y = labels(X, 0.02)
    assert outcome(Biased(), lambda d: 0.5 + 0.6 * (sure(d, 0.98)[:, 1] - 0.5), X, y).findings == ()


@pytest.mark.parametrize(("shift", "found"), [(0.25, 1), (0.13, 1), (0.04, 0)])
def test_a_shift_counts_that_is_large_beside_the_residuals(shift: float, found: int) -> None:
    """0.13 is an eighth of a residual, though 0.04 of the target's deviation."""
    assert len(outcome(Biased(), lambda d: predict(d) + shift, X, Y).findings) == found


def test_a_segment_without_the_bias_of_all_others_is_not_called_biased() -> None:
    found = outcome(Biased(), lambda d: predict(d) + 1.5 * (d.kind != "d"), X, Y).findings
    (overall,) = found
    assert "segment" not in overall.evidence
    assert "too high by 1.1" in overall.message


@pytest.mark.parametrize("seed", range(4))
def test_the_bias_of_a_segment_is_beyond_the_limit_and_within_its_interval(seed: int) -> None:
    shift_R = 0.7 * (X.kind == "a") + 0.2 * seed * (X.age > 40)
    found = outcome(Biased(), lambda d: predict(d) + shift_R[d.index], X, Y).findings
    within = [each for each in found if "segment" in each.evidence]
    assert within
    for each in within:
        low, high = each.evidence["interval"]  # type: ignore[misc]
        value = float(each.evidence["value"])  # type: ignore[arg-type]
        assert abs(value) > 0.1 * Y.std()
        assert low < value < high  # type: ignore[operator]
