"""The adapter of LightGBM passes the suite that every adapter passes."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest

lightgbm = pytest.importorskip("lightgbm")

from tests.adapters.boosted import shuffled  # noqa: E402
from tests.adapters.lightgbm.data import PARAMS, X, Y  # noqa: E402

from mothtrap.adapters.lightgbm import ADAPTER  # noqa: E402
from mothtrap.testing import AdapterTests  # noqa: E402


class TestLightGBM(AdapterTests):
    adapter = ADAPTER
    steps = 12
    elsewhere = {"PredictionsCompared": "tests/tracing/boosting/test_predicted.py"}
    replaced = (
        lightgbm,
        lightgbm.engine,
        lightgbm.sklearn,
        lightgbm.Booster,
        lightgbm.Dataset,
    )

    def train(self) -> bytes:
        train = lightgbm.Dataset(X[:300], Y[:300])
        valid = lightgbm.Dataset(X[300:], Y[300:], reference=train)
        booster = lightgbm.train(PARAMS, train, self.steps, valid_sets=[train, valid])
        return bytes(booster.model_to_string().encode())

    def reported(self) -> Sequence[Callable[[], object]]:
        return [self.train, self.train_with_an_own_objective, self.train_on_shuffled_labels]

    def train_on_shuffled_labels(self) -> None:
        lightgbm.train(PARAMS, lightgbm.Dataset(*shuffled()), 2)

    def train_with_an_own_objective(self) -> None:
        rows = np.random.default_rng(0).normal(size=(300, 5))
        train = lightgbm.Dataset(rows[:150], rows[:150, 0])
        moved = lightgbm.Dataset(rows[150:] + 20.0, rows[150:, 0], reference=train)

        def squared(predicted: np.ndarray, table: object) -> tuple[np.ndarray, np.ndarray]:
            return predicted - rows[:150, 0], np.ones(150)

        params = {"objective": squared, "metric": "l2", "num_threads": 1, "verbose": -1}
        lightgbm.train(params, train, 3, valid_sets=[moved])
