"""Probabilities are compared with outcomes, in both directions."""

from __future__ import annotations

import numpy as np
import pytest
from tests.behavior.asking import outcome, suspicions

from mothtrap.behavior.probes.miscalibrated import Miscalibrated, calibration_error, spiegelhalter
from mothtrap.core.errors import NotApplicable

RNG = np.random.default_rng(0)
X = RNG.normal(size=(4000, 2))
Y = (RNG.random(4000) < 1 / (1 + np.exp(-X[:, 0]))).astype(int)


@pytest.mark.parametrize(
    ("times", "word"), [(4.0, "overconfident"), (0.2, "underconfident"), (1.0, "")]
)
def test_logits_that_are_scaled(times: float, word: str) -> None:
    found = outcome(Miscalibrated(), lambda a: 1 / (1 + np.exp(-times * a[:, 0])), X, Y).findings
    assert len(found) == bool(word)
    assert all(word in finding.message for finding in found)


def test_several_classes_are_judged_by_their_confidence() -> None:
    y = RNG.integers(0, 3, 4000)
    sure = np.array([0.8, 0.1, 0.1])
    (finding,) = outcome(Miscalibrated(), lambda a: np.tile(sure, (len(a), 1)), X, y).findings
    assert finding.evidence["confidence"] == pytest.approx(0.8)
    fair = np.array([0.34, 0.33, 0.33])
    assert outcome(Miscalibrated(), lambda a: np.tile(fair, (len(a), 1)), X, y).findings == ()


@pytest.mark.parametrize(("times", "word"), [(2.5, "overconfident"), (0.4, "underconfident")])
def test_several_classes_with_a_confidence_near_a_half(times: float, word: str) -> None:
    """There, the weights of Spiegelhalter's test cancel."""
    weights = np.random.default_rng(1).normal(size=(2, 5))

    def said(a: np.ndarray, factor: float) -> np.ndarray:
        grown = np.exp(factor * (a @ weights))
        return np.asarray(grown / grown.sum(axis=1, keepdims=True))

    y = np.array([np.random.default_rng(i).choice(5, p=p) for i, p in enumerate(said(X, 1.0))])
    (finding,) = outcome(Miscalibrated(), lambda a: said(a, times), X, y).findings
    assert word in finding.message
    assert outcome(Miscalibrated(), lambda a: said(a, 1.0), X, y).findings == ()


def test_labels_have_no_probabilities() -> None:
    with pytest.raises(NotApplicable):
        suspicions(Miscalibrated(), lambda a: (a[:, 0] > 0).astype(int), X, Y)


def test_the_calibration_error_of_known_numbers() -> None:
    said = np.repeat([0.2, 0.6], 50)
    came = np.concatenate([np.repeat([1, 0], [20, 30]), np.repeat([1, 0], [30, 20])]).astype(float)
    shuffled = np.random.default_rng(1).permutation(50)
    came = np.concatenate([came[:50][shuffled], came[50:][shuffled]])
    assert calibration_error(said, came) >= 0.1 - 1e-9


def test_spiegelhalter_is_uniform_for_calibrated_models() -> None:
    said = RNG.random((300, 500))
    p = [spiegelhalter(s, (RNG.random(500) < s).astype(float)) for s in said]
    assert 0.02 < np.mean(np.array(p) < 0.05) < 0.09
