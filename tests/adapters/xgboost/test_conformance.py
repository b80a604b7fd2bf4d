"""The adapter of XGBoost passes the suite that every adapter passes."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest

xgboost = pytest.importorskip("xgboost")

from tests.adapters.boosted import shuffled  # noqa: E402
from tests.adapters.xgboost.tables import EVALS, PARAMS, TRAIN, VALID  # noqa: E402
from xgboost.callback import CallbackContainer  # noqa: E402

from mothtrap.adapters.xgboost import ADAPTER  # noqa: E402
from mothtrap.testing import AdapterTests  # noqa: E402


class TestXGBoost(AdapterTests):
    adapter = ADAPTER
    steps = 12
    elsewhere = dict.fromkeys(
        ("prediction", "shap", "average_shap", "importance", "tree"),
        "tests/adapters/xgboost/test_values.py: only where they are named",
    ) | {"PredictionsCompared": "tests/tracing/boosting/test_predicted.py"}
    replaced = (
        xgboost.Booster,
        xgboost.DMatrix,
        xgboost.QuantileDMatrix,
        CallbackContainer,
        xgboost.training,
    )

    def train(self) -> bytes:
        booster = xgboost.train(PARAMS, TRAIN, self.steps, evals=EVALS, verbose_eval=False)
        return bytes(booster.save_raw("json"))

    def reported(self) -> Sequence[Callable[[], object]]:
        return [
            self.train_on_new_tables,
            self.train_with_an_own_objective,
            self.train_on_shuffled_labels,
        ]

    def train_on_shuffled_labels(self) -> None:
        xgboost.train(PARAMS, xgboost.DMatrix(*shuffled()), 2)

    def train_on_new_tables(self) -> None:
        rows = np.arange(200.0).reshape(40, 5)
        train = xgboost.DMatrix(rows, np.arange(40) % 2)
        valid = xgboost.DMatrix(rows[:10], np.arange(10) % 2)
        evals = [(train, "train"), (valid, "valid")]
        xgboost.train(PARAMS, train, 5, evals=evals, verbose_eval=False)
        assert VALID.num_row()

    def train_with_an_own_objective(self) -> None:
        rows = np.random.default_rng(0).normal(size=(300, 5))
        train = xgboost.DMatrix(rows[:150], rows[:150, 0])
        moved = xgboost.DMatrix(rows[150:] + 20.0, rows[150:, 0])

        def squared(predicted: np.ndarray, table: object) -> tuple[np.ndarray, np.ndarray]:
            return predicted - train.get_label(), np.ones(150)

        evals = [(moved, "valid")]
        xgboost.train({"nthread": 1}, train, 3, evals=evals, obj=squared, verbose_eval=False)
