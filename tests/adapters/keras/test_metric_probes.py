"""Metrics of a script that compare every prediction with every target."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

pytest.importorskip("tensorflow", exc_type=ImportError)
keras = pytest.importorskip("keras")

from mothtrap.adapters.keras import ADAPTER  # noqa: E402
from mothtrap.adapters.tensorflow import ADAPTER as BASE  # noqa: E402
from mothtrap.core.facts.losses import MetricBroadcast  # noqa: E402
from mothtrap.testing.adapters import Process  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")

X = np.random.default_rng(0).normal(size=(40, 4)).astype("float32")
Y = X[:, 0]


def accuracy(y_true: Any, y_pred: Any) -> Any:
    equal = keras.ops.equal(y_true > 0, y_pred > 0)
    return keras.ops.mean(keras.ops.cast(equal, "float32"))


def determination(y_true: Any, y_pred: Any) -> Any:
    residuals = keras.ops.sum((y_true - y_pred) ** 2)
    return 1 - residuals / keras.ops.sum((y_true - keras.ops.mean(y_true)) ** 2)


def squeezed(y_true: Any, y_pred: Any) -> Any:
    return accuracy(y_true, keras.ops.squeeze(y_pred, -1))


def concordance(y_true: Any, y_pred: Any) -> Any:
    larger = y_true[:, None] > y_true  # the pairs of rows, which are meant
    guessed = y_pred - keras.ops.squeeze(y_pred, -1) > 0
    return keras.ops.mean(keras.ops.cast(larger == guessed, "float32"))


def broadcasts(metric: Any, target: np.ndarray = Y) -> list[MetricBroadcast]:
    process = Process("numpy")
    with process.watched(BASE), process.watched(ADAPTER):
        model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])
        model.compile("sgd", "mse", metrics=[metric])
        model.fit(X, target, validation_data=(X, target), batch_size=20, verbose=0)
    return [one for one in process.facts() if isinstance(one, MetricBroadcast)]


@pytest.mark.parametrize("metric", [accuracy, determination])
def test_a_row_meets_a_column(metric: Callable[..., Any]) -> None:
    (found,) = broadcasts(metric)
    assert (found.metric, found.prediction_axes, found.target_axes) == (metric.__name__, 2, 1)
    assert "test_metric_probes.py" in (found.location or "")


@pytest.mark.parametrize("metric", [squeezed, concordance, "mae"])
def test_equal_shapes_and_pairs_of_rows_are_meant(metric: Any) -> None:
    assert broadcasts(metric) == []


def test_a_column_of_targets_fits() -> None:
    assert broadcasts(accuracy, Y[:, None]) == []
