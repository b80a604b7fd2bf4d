"""A model that simpler models beat is named; a constant that beats it is an error."""

from __future__ import annotations

import numpy as np
from tests.behavior.asking import outcome

from mothtrap.behavior.probes.beaten_by_simple import BeatenBySimple
from mothtrap.core.findings import Severity

RNG = np.random.default_rng(0)
X = RNG.normal(size=(1200, 4))
Y = X @ np.array([3.0, 1, 0, 0]) + RNG.normal(size=1200)


def test_a_linear_model_beats_one_that_saw_half() -> None:
    (finding,) = outcome(BeatenBySimple(), lambda a: 3 * a[:, 0], X, Y).findings
    assert finding.severity is Severity.WARNING
    assert finding.evidence["model"] == "linear"


def test_a_constant_beats_nonsense() -> None:
    (finding,) = outcome(BeatenBySimple(), lambda a: -3 * a[:, 0], X, Y).findings
    assert finding.severity is Severity.ERROR
    assert "a constant prediction is better" in finding.message


def test_the_truth_is_not_beaten() -> None:
    assert outcome(BeatenBySimple(), lambda a: a @ np.array([3.0, 1, 0, 0]), X, Y).findings == ()


def test_few_rows_are_enough_for_a_clear_difference() -> None:
    """All rows are compared, not only half of them."""
    few, truth = X[:280], Y[:280] > 0

    def too_sure(a: np.ndarray) -> np.ndarray:
        flipped = np.sin(100 * a[:, 3]) > 0.95
        one = np.where((3 * a[:, 0] + a[:, 1] > 0) ^ flipped, 1.0, 0.0)
        return np.stack([1 - one, one], axis=1)

    (finding,) = outcome(BeatenBySimple(), too_sure, few, truth.astype(int)).findings
    assert finding.evidence["n"] == 280
    assert finding.evidence["model"] == "linear"


def test_training_rows_are_used_where_they_are_given() -> None:
    """Fitted on training rows of another world, no simple model is better."""
    train = (X, -Y)
    assert outcome(BeatenBySimple(), lambda a: 3 * a[:, 0], X, Y, train).findings == ()
