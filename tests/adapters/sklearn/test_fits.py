"""Fits of scikit-learn give the same models with the adapter, and are recorded."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

pytest.importorskip("sklearn")

from sklearn.base import clone
from sklearn.linear_model import SGDClassifier, SGDRegressor
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from tests.adapters.boosted import losses, of, watched

from mothtrap.adapters.sklearn import ADAPTER
from mothtrap.core.facts.estimators import EstimatorFitted
from mothtrap.core.facts.layers import DataTaken
from mothtrap.core.facts.trees import ColumnsSeen
from mothtrap.core.steps import Mode

pytestmark = pytest.mark.filterwarnings("ignore:Stochastic Optimizer", "ignore:lbfgs failed")
_RNG = np.random.default_rng(0)
X = _RNG.normal(size=(300, 5))
Y = (X[:, 0] * X[:, 1] + X[:, 2] > 0).astype(int)
Z = X[:, 0] + X[:, 1] ** 2


def weights(model: Any) -> list[bytes]:
    found = [*model.coefs_, *model.intercepts_] if hasattr(model, "coefs_") else [model.coef_]
    return [array.tobytes() for array in found]


def estimators() -> list[tuple[Any, np.ndarray]]:
    return [
        (MLPClassifier((6, 4), solver="sgd", max_iter=5, random_state=1), Y),
        (MLPRegressor(hidden_layer_sizes=(6,), activation="tanh", max_iter=5, random_state=1), Z),
        (MLPClassifier((6,), solver="lbfgs", max_iter=5, random_state=1), Y),
        (SGDClassifier(random_state=1), (X[:, 0] > 0).astype(int) + Y),
        (SGDRegressor(random_state=1, average=True), Z),
        (SGDClassifier(random_state=1, early_stopping=True), np.where(Y > 0, "yes", "no")),
    ]


@pytest.mark.parametrize("number", range(len(estimators())))
def test_a_model_has_the_same_weights(number: int) -> None:
    plain, label = estimators()[number]
    plain.fit(X, label)
    model, _ = estimators()[number]
    process, _ = watched(ADAPTER, lambda: model.fit(X, label))
    assert weights(model) == weights(plain)
    assert model.n_iter_ == plain.n_iter_
    assert pickle.loads(pickle.dumps(model)).predict(X).tolist() == plain.predict(X).tolist()
    assert clone(model).get_params() == plain.get_params()
    [fitted] = of(process, EstimatorFitted)
    assert isinstance(fitted, EstimatorFitted)
    assert (fitted.rows, fitted.columns, fitted.call) == (300, 5, "fit")
    assert fitted.iterations == plain.n_iter_
    assert "test_fits.py" in (fitted.location or "")
    assert of(process, ColumnsSeen)
    assert len(of(process, DataTaken)) >= 2


def test_steps_of_a_network_are_its_batches() -> None:
    model = MLPClassifier((6,), batch_size=100, max_iter=4, random_state=1)
    process, _ = watched(ADAPTER, lambda: model.fit(X, Y))
    seen = losses(process)
    assert len(seen) == len(process.steps()) == 12
    passes = np.reshape(seen, (4, 3)).mean(axis=1)
    assert passes.tolist() == pytest.approx(model.loss_curve_)
    assert losses(process, name="lr") == [0.001] * 12
    names = {info.identity for record in process.records for _, info in record.defined}
    assert {"gradient:coefs_.0", "weight:coefs_.1", "weight:intercepts_.0"} <= names


def test_predictions_are_counted_as_the_model_makes_them() -> None:
    for model, label in estimators():
        process, _ = watched(ADAPTER, lambda m=model, y=label: m.fit(X, y))
        [fitted] = of(process, EstimatorFitted)
        assert isinstance(fitted, EstimatorFitted)
        predicted = model.predict(X)
        if hasattr(model, "classes_"):
            counts = [int((predicted == value).sum()) for value in model.classes_]
            assert list(fitted.predicted_counts) == counts
        else:
            assert fitted.predicted_std == pytest.approx(float(predicted.std()))


def test_validation_scores_are_evaluations() -> None:
    model = MLPClassifier((6,), max_iter=6, random_state=1, early_stopping=True)
    process, _ = watched(ADAPTER, lambda: model.fit(X, Y))
    assert losses(process, Mode.EVAL, "score") == model.validation_scores_


def test_partial_fits_are_one_series() -> None:
    def train() -> list[bytes]:
        model = SGDClassifier(random_state=1)
        for part in range(6):
            model.partial_fit(X[part::6], Y[part::6], classes=[0, 1])
        return weights(model)

    plain = train()
    process, found = watched(ADAPTER, train)
    assert found == plain
    assert len(process.steps()) == 6
    fitted = of(process, EstimatorFitted)
    assert {one.call for one in fitted} == {"partial_fit"}  # type: ignore[attr-defined]
    assert len({one.fit for one in fitted}) == 1  # type: ignore[attr-defined]


def test_a_warm_start_goes_on_and_is_another_fit() -> None:
    def train() -> list[bytes]:
        model = MLPClassifier((6,), max_iter=2, random_state=1, warm_start=True)
        return weights(model.fit(X, Y).fit(X, Y))

    plain = train()
    process, found = watched(ADAPTER, train)
    assert found == plain
    assert len({one.fit for one in of(process, EstimatorFitted)}) == 2  # type: ignore[attr-defined]


def test_a_pipeline_shows_what_the_estimator_gets() -> None:
    wide = X * [1, 100, 1e4, 1, 1]
    model = make_pipeline(StandardScaler(), MLPClassifier((6,), max_iter=3, random_state=1))
    process, _ = watched(ADAPTER, lambda: model.fit(wide, Y))
    assert all(0.8 < one.std < 1.2 for one in of(process, DataTaken))  # type: ignore[attr-defined]


def test_only_the_estimator_that_is_watched_is_recorded() -> None:
    one, other = (MLPClassifier((3,), max_iter=2, batch_size=300) for _ in range(2))
    process, _ = watched(ADAPTER, lambda: (one.fit(X, Y), other.fit(X, Y)), other)
    assert len(process.steps()) == 2


def test_an_error_of_the_library_passes() -> None:
    def fails() -> None:
        with pytest.raises(ValueError, match="NaN"):
            MLPClassifier((3,)).fit(np.full((20, 2), np.nan), np.arange(20) % 2)
        MLPClassifier((3,), max_iter=2, batch_size=300).fit(X, Y)

    process, _ = watched(ADAPTER, fails)
    assert len(process.steps()) == 2
