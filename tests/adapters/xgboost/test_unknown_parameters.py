"""Parameters that XGBoost does not know, and ignores."""

from __future__ import annotations

import pytest

xgboost = pytest.importorskip("xgboost")

from tests.adapters.boosted import of, watched  # noqa: E402
from tests.adapters.xgboost.tables import PARAMS, TRAIN, X, Y  # noqa: E402

from mothtrap.adapters.xgboost import ADAPTER  # noqa: E402
from mothtrap.core.facts.trees import BoostingBegan  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")


def ignored(train: object) -> dict[str, str] | None:
    process, _ = watched(ADAPTER, train)  # type: ignore[arg-type]
    [began] = of(process, BoostingBegan)
    assert isinstance(began, BoostingBegan)
    return began.ignored


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"max_dept": 3, "min_child_weigth": 5}, {"max_dept": "max_depth"}),
        ({"n_estimators": 300, "early_stopping_rounds": 5}, {"early_stopping_rounds": ""}),
        ({"n_estimators": 3}, {}),
        ({"rate_drop": 0.1, "eval_metric": "auc", "note": 1, "scale_pos_weight": 2}, {}),
    ],
)
def test_parameters_of_train(given: dict[str, object], expected: dict[str, str]) -> None:
    found = ignored(lambda: xgboost.train({**PARAMS, **given}, TRAIN, 3))
    assert found is not None
    assert expected.items() <= found.items()
    assert set(found) <= {"max_dept", "min_child_weigth", "n_estimators", "early_stopping_rounds"}
    assert bool(found) == bool(expected)


def test_parameters_of_an_estimator() -> None:
    def fit(**more: object) -> object:
        return xgboost.XGBClassifier(n_estimators=3, n_jobs=1, **more).fit(X, Y)

    assert ignored(fit) == {}
    assert ignored(lambda: fit(sub_sample=0.5, max_leafs=4)) == {
        "sub_sample": "subsample",
        "max_leafs": "max_leaves",
    }


def test_a_loop_of_the_script_has_unknown_parameters() -> None:
    def update() -> None:
        booster = xgboost.Booster({**PARAMS, "max_dept": 3}, [TRAIN])
        for step in range(3):
            booster.update(TRAIN, step)
        booster.eval_set([(TRAIN, "train")])

    assert ignored(update) is None
