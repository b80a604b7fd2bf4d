"""Scores of simple models."""

from __future__ import annotations

import importlib.util

import numpy as np
import pytest
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from tests.checks.given import Given, finding, passes, result, table

CODE = "PRE401"


def in_the_order_read(*arrays: np.ndarray) -> tuple[np.ndarray, ...]:
    """Return arrays in the order in which checks read rows."""
    order = np.random.default_rng(0).permutation(len(arrays[0]))
    return tuple(array[order] for array in arrays)


def test_scores_of_classes_equal_those_of_scikit_learn() -> None:
    x, y = table(rows=600)
    sets = Given(x[:400], y[:400]), Given(x[400:], y[400:], "evaluation")
    assert passes(CODE, *sets)
    given, labels = in_the_order_read(x[:400].astype(float), y[:400])
    linear = make_pipeline(StandardScaler(), LogisticRegression(max_iter=500))
    boosting = HistGradientBoostingClassifier(learning_rate=0.2, max_iter=50, random_state=0)
    models = {"dummy": DummyClassifier(), "linear": linear, "gradient boosting": boosting}
    figures = result(CODE, *sets).figures
    for name, model in models.items():
        own = model.fit(given, labels).score(x[400:].astype(float), y[400:])
        assert figures[f"{name} accuracy"] == pytest.approx(own, abs=1e-12)


def test_scores_of_numbers_equal_those_of_scikit_learn() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(500, 4))
    y = np.sin(x[:, 0]) + x[:, 1] + 0.1 * rng.normal(size=500)
    sets = Given(x[:400], y[:400]), Given(x[400:], y[400:], "evaluation")
    assert passes(CODE, *sets, task="numbers")
    given, targets = in_the_order_read(x[:400], y[:400])
    linear = make_pipeline(StandardScaler(), Ridge())
    boosting = HistGradientBoostingRegressor(learning_rate=0.2, max_iter=50, random_state=0)
    models = {"dummy": DummyRegressor(), "linear": linear, "gradient boosting": boosting}
    figures = result(CODE, *sets, task="numbers").figures
    for name, model in models.items():
        own = model.fit(given, targets).score(x[400:], y[400:])
        assert figures[f"{name} R2"] == pytest.approx(own, abs=1e-12)


def test_without_an_evaluation_a_fifth_of_training_is_held_out() -> None:
    figures = result(CODE, Given(*table(rows=500))).figures
    assert (figures["rows of training"], figures["rows of evaluation"]) == (400, 100)
    assert figures["linear accuracy"] > 0.9 > figures["dummy accuracy"]


def test_targets_that_do_not_belong_to_their_rows_are_a_note() -> None:
    x, y = table(rows=600)
    y = np.random.default_rng(0).permutation(y)
    found = finding(CODE, Given(x[:400], y[:400]), Given(x[400:], y[400:], "evaluation"))
    assert found.severity == "info"
    assert "constant guess" in found.message


def test_large_data_leave_gradient_boosting_out() -> None:
    x, y = table(rows=5000, columns=150)
    figures = result(CODE, Given(x, y)).figures
    assert "linear accuracy" in figures
    assert "gradient boosting accuracy" not in figures


def test_few_rows_decide_nothing() -> None:
    assert result(CODE, Given(*table(rows=60))).state == "not_enough_data"


def test_without_scikit_learn_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    made = result(CODE, Given(*table()))
    assert made.state == "not_applicable"
    assert "pip install 'scikit-learn" in made.reason
