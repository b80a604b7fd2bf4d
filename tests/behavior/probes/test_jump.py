"""Codes for missing values and single steps of smooth models are named; trees are not."""

from __future__ import annotations

import numpy as np
import pandas as pd
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LinearRegression
from sklearn.tree import DecisionTreeRegressor
from tests.behavior.asking import suspicions

from mothtrap.behavior.probes.jump import Jump

RNG = np.random.default_rng(0)
X = pd.DataFrame({"income": RNG.lognormal(3, 0.4, 800), "b": RNG.normal(size=800)})
GONE = RNG.random(800) < 0.1
CODED = X.assign(income=np.where(GONE, -999.0, X.income))


def linear(d: pd.DataFrame) -> np.ndarray:
    return 0.1 * d.income.to_numpy() + d.b.to_numpy()


def test_a_code_that_counts_as_a_number_is_named_with_its_rows() -> None:
    (found,) = suspicions(Jump(), linear, CODED, linear(X))
    assert found.features == ("income",)
    assert found.evidence["value"] == -999
    assert found.rows.tolist() == np.flatnonzero(GONE).tolist()


def test_a_code_that_the_model_knows_is_fine() -> None:
    def knows(d: pd.DataFrame) -> np.ndarray:
        return linear(d.assign(income=d.income.where(d.income > 0, 20.0)))

    assert suspicions(Jump(), knows, CODED, linear(X)) == []


def test_a_code_that_hides_the_effect_of_the_other_values_is_named() -> None:
    """A linear model fitted to the code has a slope of nearly 0 for the real values."""
    y = linear(X) + RNG.normal(0, 0.3, len(X))
    model = LinearRegression().fit(CODED, y)
    (found,) = suspicions(Jump(), model.predict, CODED, y)
    assert found.features == ("income",)
    assert "misses the effect" in found.message
    assert found.rows.tolist() == np.flatnonzero(GONE).tolist()


def test_a_code_in_a_column_without_effect_is_fine() -> None:
    y = X.b.to_numpy() + RNG.normal(0, 0.3, len(X))
    model = LinearRegression().fit(CODED, y)
    assert [each for each in suspicions(Jump(), model.predict, CODED, y) if each.features] == []


def test_a_code_that_trees_separate_is_fine() -> None:
    y = linear(X) + RNG.normal(0, 0.3, len(X))
    model = DecisionTreeRegressor(min_samples_leaf=20, random_state=0).fit(CODED, y)
    assert suspicions(Jump(), model.predict, CODED, y) == []


def test_a_step_of_a_smooth_model_is_named() -> None:
    (found,) = suspicions(Jump(), lambda d: linear(d) + 20 * (d.b > 0.5), X, linear(X))
    assert found.features == ("b",)
    assert abs(float(found.evidence["value"]) - 0.5) < 0.1  # type: ignore[arg-type]


def test_a_steep_forest_is_fine() -> None:
    """Its output changes in nearly every step of 1 %, at one of many thresholds."""
    rng = np.random.default_rng(1)
    rings = rng.normal(size=(1200, 2))
    y = (np.hypot(*rings.T) > 1.1).astype(int)
    forest = RandomForestClassifier(60, min_samples_leaf=5, random_state=0).fit(rings, y)
    assert suspicions(Jump(), forest.predict_proba, rings, y) == []


def test_a_step_in_a_smooth_class_is_named() -> None:
    rows = np.random.default_rng(1).normal(size=(800, 2))

    def cut(d: np.ndarray) -> np.ndarray:
        return 1 / (1 + np.exp(-d[:, 1] - 3 * (d[:, 0] > 0.5)))

    (found,) = suspicions(Jump(), cut, rows, (cut(rows) > 0.5).astype(int))
    assert found.features == ("x0",)


def test_a_sure_model_is_steep_and_does_not_jump() -> None:
    """It moves from one class to the other within a step, but in all parts of the step."""
    rows = np.random.default_rng(2).normal(2, 3, size=(800, 2))

    def sure(d: np.ndarray) -> np.ndarray:
        return 1 / (1 + np.exp(-20 * (d[:, 0] - 2)))

    assert suspicions(Jump(), sure, rows, (rows[:, 0] > 2).astype(int)) == []


def test_trees_and_lines_are_fine() -> None:
    tree = DecisionTreeRegressor(max_depth=3).fit(X, linear(X))
    assert suspicions(Jump(), tree.predict, X, linear(X)) == []
    assert suspicions(Jump(), linear, X, linear(X)) == []
