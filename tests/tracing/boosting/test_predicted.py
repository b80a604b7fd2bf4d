"""Predictions of boosting libraries' estimators are remembered until they are compared."""

from __future__ import annotations

import importlib
from typing import Any, cast

import numpy as np
import pytest
from tests.adapters.boosted import of, watched
from tests.rules.windows import window

from mothtrap.core.facts.estimators import PredictionsCompared
from mothtrap.rules.labels_unrelated import LabelsUnrelated
from mothtrap.tracing.boosting import predicted

RNG = np.random.default_rng(0)
X = RNG.normal(size=(300, 4))
Y = (X[:, 0] > 0).astype(int)
OPTIONS: dict[str, dict[str, Any]] = {
    "xgboost": {},
    "lightgbm": {"verbose": -1},
    "catboost": {"silent": True},
}
CLASSES = {"xgboost": "XGB", "lightgbm": "LGBM", "catboost": "CatBoost"}


@pytest.mark.parametrize("library", OPTIONS)
@pytest.mark.parametrize("kind", ["Classifier", "Regressor"])
def test_predictions_are_recognized_by_identity(library: str, kind: str) -> None:
    module = pytest.importorskip(library)
    adapter = importlib.import_module(f"mothtrap.adapters.{library}").ADAPTER
    name = CLASSES[library] + kind
    model = getattr(module, name)(n_estimators=5, **OPTIONS[library])

    def train() -> Any:
        model.fit(X[:150], Y[:150])
        return model.predict(X[150:]), model.predict(X[:150])

    _, values = watched(adapter, train)
    others, own = cast(tuple[Any, Any], values)
    found = predicted.source_of(others)
    assert found is not None
    assert (found.estimator, found.classes, found.trained) == (name, kind == "Classifier", False)
    assert "test_predicted.py" in found.location
    again = predicted.source_of(own)
    assert again is not None
    assert again.trained
    assert predicted.source_of(others.copy()) is None


def test_predictions_are_not_kept_alive() -> None:
    values = np.zeros(3)
    about = {"estimator": "A", "fit": "a", "classes": True, "trained": False, "location": ""}
    predicted.remember(values, **about)
    assert predicted.source_of(values) is not None
    found = predicted._LATEST[-1].values
    del values
    assert found() is None


@pytest.mark.parametrize("library", ["xgboost", "lightgbm"])
@pytest.mark.parametrize("unrelated", [False, True])
def test_metrics_compare_predictions_with_labels(library: str, unrelated: bool) -> None:
    module = pytest.importorskip(library)
    metrics = pytest.importorskip("sklearn.metrics")
    adapter = importlib.import_module(f"mothtrap.adapters.{library}").ADAPTER
    kind = getattr(module, CLASSES[library] + "Classifier")
    label = np.random.default_rng(1).permutation(Y) if unrelated else Y

    def train() -> Any:
        model = kind(n_estimators=5, **OPTIONS[library]).fit(X[:150], label[:150])
        return metrics.accuracy_score(Y[150:], model.predict(X[150:]))

    process, _ = watched(adapter, train)
    [found] = of(process, PredictionsCompared)
    assert isinstance(found, PredictionsCompared)
    assert found.rows == 150
    assert bool(LabelsUnrelated().check(window(found))) is unrelated
