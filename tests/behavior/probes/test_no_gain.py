"""A complex model that is no better than a simple one is a note, unless it is linear itself."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.ensemble import RandomForestRegressor
from tests.behavior.asking import outcome, suspicions

from mothtrap.behavior.probes.no_gain import NoGain
from mothtrap.core.errors import NotApplicable

RNG = np.random.default_rng(0)
X = RNG.normal(size=(1600, 3))
LINE = X @ np.array([2.0, 1, 0]) + RNG.normal(size=1600)


def test_a_forest_on_a_line_is_named() -> None:
    forest = RandomForestRegressor(30, min_samples_leaf=5, random_state=0).fit(X[:800], LINE[:800])
    (finding,) = outcome(NoGain(), forest.predict, X[800:], LINE[800:]).findings
    assert finding.evidence["model"] == "linear"


def test_large_losses_are_whole_numbers() -> None:
    large = 100 * LINE
    forest = RandomForestRegressor(30, min_samples_leaf=5, random_state=0).fit(X[:800], large[:800])
    (finding,) = outcome(NoGain(), forest.predict, X[800:], large[800:]).findings
    assert "e+" not in finding.message


def test_a_model_that_gains_is_fine() -> None:
    ring = (X[:, 0] ** 2 + X[:, 1] ** 2) + RNG.normal(0, 0.3, 1600)
    assert outcome(NoGain(), lambda a: a[:, 0] ** 2 + a[:, 1] ** 2, X, ring).findings == ()


def test_a_linear_model_is_not_told_to_be_linear() -> None:
    with pytest.raises(NotApplicable, match="linear"):
        suspicions(NoGain(), lambda a: a @ np.array([2.0, 1, 0]), X, LINE)
