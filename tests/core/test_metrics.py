from __future__ import annotations

import pytest

from mothtrap.core import metrics


@pytest.mark.parametrize(
    ("name", "kind", "rising"),
    [
        ("logloss", "logloss", False),
        ("binary_logloss", "logloss", False),
        ("MultiClass", "mlogloss", False),
        ("error@0.7", "error", False),
        ("AUC", "auc", True),
        ("NDCG:top=5", "ranking", True),
        ("profit", "", False),
    ],
)
def test_names_of_libraries_have_a_kind(name: str, kind: str, rising: bool) -> None:
    assert metrics.kind(name) == kind
    assert metrics.is_rising(name) is rising


@pytest.mark.parametrize(
    ("name", "rising"),
    [
        ("eval_matthews_correlation", True),
        ("eval_spearmanr", True),
        ("rouge1", True),
        ("my_f1", True),
        ("myauc", True),
        ("validAccuracy", True),
        ("custom_rmse", False),
        ("neg_loss_score", None),
        ("profit", None),
        ("mape", False),
    ],
)
def test_names_of_users_may_say_which_way_is_better(name: str, rising: bool | None) -> None:
    assert metrics.sense_by_name(name) is rising


def test_a_smooth_loss_is_preferred() -> None:
    assert metrics.loss_among(["auc", "error", "logloss"]) == "logloss"
    assert metrics.loss_among(["auc", "error"]) == "error"
    assert metrics.loss_among(["auc"]) is None
    assert metrics.loss_among(["l1", "l2"]) == "l1"
    assert metrics.loss_among(["l1", "l2"], "regression") == "l2"
    assert metrics.loss_among(["mae", "rmse"], "reg:squarederror") == "rmse"
