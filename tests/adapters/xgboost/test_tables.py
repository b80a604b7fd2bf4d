"""Tables of XGBoost for `mothtrap check`."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

xgboost = pytest.importorskip("xgboost")

from mothtrap.adapters.xgboost.tables import collect  # noqa: E402
from mothtrap.checks.fitted_tables import FittedTable  # noqa: E402

X = np.random.default_rng(0).normal(size=(40, 3))
Y = (X[:, 0] > 0).astype(int)


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch) -> list[FittedTable]:
    """Return the tables that a test reported."""
    for holder in (xgboost, xgboost.training):
        monkeypatch.setattr(holder, "train", holder.train)
    for kind in (xgboost.XGBModel, xgboost.XGBClassifier):
        monkeypatch.setattr(kind, "fit", kind.fit)
    found: list[FittedTable] = []
    collect(found.append)
    return found


@pytest.mark.parametrize(
    ("model", "task"),
    [
        (lambda: xgboost.XGBClassifier(n_estimators=1), "classes"),
        (lambda: xgboost.XGBModel(n_estimators=1, objective="binary:logistic"), "classes"),
        (lambda: xgboost.XGBModel(n_estimators=1), "numbers"),
        (lambda: xgboost.XGBRegressor(n_estimators=1), "numbers"),
    ],
)
def test_the_task_of_an_estimator_is_that_of_its_objective(
    taken: list[FittedTable], model: Any, task: str
) -> None:
    model().fit(X, Y, eval_set=[(X[:10], Y[:10])], verbose=False)
    assert {(one.role, one.task) for one in taken} == {("train", task), ("evaluation", task)}
