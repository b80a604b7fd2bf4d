"""A curve and an interaction that a model misses are named, and distinguished."""

from __future__ import annotations

import numpy as np
from tests.behavior.asking import outcome

from mothtrap.behavior.probes.residual_pattern import ResidualPattern
from mothtrap.behavior.sklearn.residual_models import products_of

RNG = np.random.default_rng(0)
X = RNG.normal(size=(2000, 5))
NOISE = RNG.normal(0, 0.5, 2000)


def test_a_missed_curve_is_named() -> None:
    y = X[:, 1] + X[:, 3] ** 2 + NOISE
    (finding,) = outcome(ResidualPattern(), lambda a: a[:, 1] + 1, X, y).findings
    assert finding.layers == ("input:x3",)
    assert "how the target depends on x3" in finding.message


def test_a_missed_interaction_is_named() -> None:
    y = X[:, 2] + X[:, 0] * X[:, 4] + NOISE
    (finding,) = outcome(ResidualPattern(), lambda a: a[:, 2], X, y).findings
    assert set(finding.layers) == {"input:x0", "input:x4"}
    assert "interaction" in finding.message


def test_an_interaction_among_many_columns_is_named() -> None:
    """Neither of its columns has an effect alone, so trees do not find it among many."""
    rng = np.random.default_rng(4)
    rows = rng.normal(size=(1600, 12))
    y = 2 * rows[:, 0] + rows[:, 1] + rows[:, 2] * rows[:, 3] + rng.normal(0, 1, len(rows))
    (finding,) = outcome(ResidualPattern(), lambda a: 2 * a[:, 0] + a[:, 1], rows, y).findings
    assert set(finding.layers) == {"input:x2", "input:x3"}
    assert "interaction" in finding.message


def test_products_of_noise_are_not_used() -> None:
    rng = np.random.default_rng(5)
    found = [products_of(rng.normal(size=(300, 20)), rng.normal(size=300)) for _ in range(100)]
    assert sum(map(bool, found)) <= 3


def test_a_small_part_of_a_curve_is_a_note() -> None:
    """Boosting leaves as much of a difficult curve."""
    y = X[:, 1] + X[:, 3] ** 2 + NOISE
    found = [
        outcome(ResidualPattern(), lambda a, s=share: a[:, 1] + s * a[:, 3] ** 2, X, y).findings
        for share in (0.0, 0.82)
    ]
    assert [str(each[0].severity) for each in found] == ["warning", "info"]


def test_noise_is_left_alone() -> None:
    assert outcome(ResidualPattern(), lambda a: a[:, 1], X, X[:, 1] + NOISE).findings == ()


def test_a_pattern_in_tiny_residuals_of_a_model_that_is_right_is_left_alone() -> None:
    y = (X[:, 0] > 0).astype(int)

    def right(a: np.ndarray) -> np.ndarray:
        """Right everywhere, and surer the farther a row is from the border."""
        one = np.where(a[:, 0] > 0, 0.99, 0.01) + 0.009 * np.tanh(a[:, 0])
        return np.stack([1 - one, one], axis=1)

    assert outcome(ResidualPattern(), right, X, y).findings == ()
    far = X[:, 0] + 1e-3 * X[:, 1] ** 2
    assert outcome(ResidualPattern(), lambda a: a[:, 0], X, far).findings == ()


def test_a_model_that_is_too_unsure_has_no_pattern_but_a_missed_curve_of_classes_has() -> None:
    """Its probabilities follow the inputs less than they should: that is calibration."""
    rng = np.random.default_rng(1)
    logit = 4 * X[:, 0] + 4 * (X[:, 3] ** 2 - 1)
    y = (rng.random(len(X)) < 1 / (1 + np.exp(-logit))).astype(int)

    def unsure(a: np.ndarray) -> np.ndarray:
        one = 1 / (1 + np.exp(-0.2 * (4 * a[:, 0] + 4 * (a[:, 3] ** 2 - 1))))
        return np.stack([1 - one, one], axis=1)

    assert outcome(ResidualPattern(), unsure, X, y).findings == ()

    def linear(a: np.ndarray) -> np.ndarray:
        one = 1 / (1 + np.exp(-1.5 * a[:, 0]))
        return np.stack([1 - one, one], axis=1)

    (finding,) = outcome(ResidualPattern(), linear, X, y).findings
    assert "input:x3" in finding.layers
