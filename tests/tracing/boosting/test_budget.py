"""Inspections of a booster in training stay within the budget, for each library."""

from __future__ import annotations

import importlib
from collections.abc import Callable

import numpy as np
import pytest
from tests.adapters.boosted import looks

from mothtrap.session import adapters

ROUNDS = 100
_RNG = np.random.default_rng(0)
X = _RNG.normal(size=(400, 5))
Y = (X[:, 0] * X[:, 1] + X[:, 2] > 0).astype(int)


def train_xgboost() -> None:
    import xgboost

    train, valid = xgboost.DMatrix(X, Y), xgboost.DMatrix(X[::2], Y[::2])
    evals = [(train, "train"), (valid, "valid")]
    xgboost.train({"nthread": 1}, train, ROUNDS, evals=evals, verbose_eval=False)


def train_lightgbm() -> None:
    import lightgbm

    train = lightgbm.Dataset(X, Y)
    valid = lightgbm.Dataset(X[::2], Y[::2], reference=train)
    params = {"objective": "binary", "num_threads": 1, "verbose": -1}
    lightgbm.train(params, train, ROUNDS, valid_sets=[train, valid])


def train_catboost() -> None:
    import catboost

    model = catboost.CatBoostClassifier(
        iterations=ROUNDS, depth=2, thread_count=1, verbose=False, allow_writing_files=False
    )
    model.fit(X, Y, eval_set=(X[::2], Y[::2]))


@pytest.mark.parametrize(
    ("library", "model", "train", "early"),
    [
        ("xgboost", "BoosterModel", train_xgboost, 10),
        ("lightgbm", "BoosterModel", train_lightgbm, 10),
        # Its trees are known only at the end: the first rounds are inspected in vain.
        ("catboost", "CatModel", train_catboost, 20),
    ],
)
def test_looks_wait_for_their_share_of_the_time(
    library: str,
    model: str,
    train: Callable[[], None],
    early: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pytest.importorskip(library)
    adapter = adapters.load(library)
    kind = getattr(importlib.import_module(f"mothtrap.adapters.{library}.model"), model)
    quick = looks(monkeypatch, adapter, kind, train, look_s=1e-5)
    assert quick["leaves"] >= early + ROUNDS / 10 - 1
    monkeypatch.undo()
    slow = looks(monkeypatch, adapter, kind, train, look_s=1.0)
    assert slow["leaves"] == early
    assert slow["gains"] + slow["predictions"] <= 16 < quick["gains"] + quick["predictions"]
