"""The adapter of CatBoost passes the suite that every adapter passes."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest

catboost = pytest.importorskip("catboost")

from catboost.core import _CatBoostBase  # noqa: E402
from tests.adapters.boosted import shuffled  # noqa: E402
from tests.adapters.catboost.data import X, Y, model_bytes, small  # noqa: E402

from mothtrap.adapters.catboost import ADAPTER  # noqa: E402
from mothtrap.testing import AdapterTests  # noqa: E402


class TestCatBoost(AdapterTests):
    adapter = ADAPTER
    steps = 12
    elsewhere = {"PredictionsCompared": "tests/tracing/boosting/test_predicted.py"}
    replaced = (catboost.Pool, _CatBoostBase)

    def train(self) -> bytes:
        model = small(iterations=self.steps)
        model.fit(X[:300], Y[:300], eval_set=(X[300:], Y[300:]))
        return model_bytes(model)

    def reported(self) -> Sequence[Callable[[], object]]:
        return [self.train_on_moved_rows, self.train_on_shuffled_labels]

    def train_on_shuffled_labels(self) -> None:
        small(iterations=3).fit(*shuffled())

    def train_on_moved_rows(self) -> None:
        rows = np.random.default_rng(0).normal(size=(300, 5))
        evals = (rows[150:] + 20.0, rows[150:, 0] > 0)
        small(iterations=3).fit(rows[:150], rows[:150, 0] > 0, eval_set=evals)
