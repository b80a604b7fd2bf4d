from __future__ import annotations

import numpy as np
import pytest
from tests.rules.boosting import PLACE, began, held_out, training, trees
from tests.rules.windows import window

from mothtrap.core.errors import NotApplicable, NotEnoughData
from mothtrap.core.facts.looks import AdapterReports
from mothtrap.rules.leaf_explosion import leaf_explosion

RISES = np.concatenate([np.linspace(0.7, 0.4, 20), np.linspace(0.4, 0.6, 40)])
FALLS = np.linspace(0.7, 0.3, 60)
LEARNED = training(np.geomspace(0.6, 0.01, 60))
DEEP = {"max_depth": 14}


def test_fires_on_deep_trees_with_few_rows_in_a_leaf() -> None:
    [finding] = leaf_explosion().check(
        window(began(**DEEP), *held_out(RISES), *trees(200, 14), LEARNED)
    )
    assert finding.location == PLACE
    assert finding.evidence["value"] == 5.0
    assert "200 leaves at depth 14" in finding.message


def test_fires_where_leaves_are_limited_and_where_nothing_is() -> None:
    lossguide = began(max_depth=0, max_leaves=300)
    assert leaf_explosion().check(window(lossguide, *held_out(RISES), *trees(290, 20), LEARNED))
    assert leaf_explosion().check(
        window(began(max_depth=0), *held_out(RISES), *trees(290, 20), LEARNED)
    )


@pytest.mark.parametrize(
    ("changed", "leaves", "depth", "values"),
    [
        pytest.param(DEEP, 200, 14, FALLS, id="the evaluation falls"),
        pytest.param(DEEP, 40, 14, RISES, id="many rows in a leaf"),
        pytest.param({}, 60, 6, RISES, id="the default depth"),
        pytest.param(DEEP, 60, 9, RISES, id="trees end before the limit"),
        pytest.param({"max_leaves": 60}, 60, 12, RISES, id="few leaves are allowed"),
    ],
)
def test_stays_quiet(changed: dict, leaves: float, depth: int, values: np.ndarray) -> None:
    seen = window(began(**changed), *held_out(values), *trees(leaves, depth), LEARNED)
    assert leaf_explosion().check(seen) == []


def test_a_training_loss_that_does_not_fall_is_something_else() -> None:
    level = training(np.full(60, 0.6))
    seen = window(began(**DEEP), *held_out(RISES), *trees(200, 14), level)
    assert leaf_explosion().check(seen) == []


def test_thresholds_are_what_they_say() -> None:
    seen = window(began(**DEEP), *held_out(RISES), *trees(200, 14), LEARNED)
    assert leaf_explosion(rows=5.0).check(seen) == []
    assert leaf_explosion(rise=0.6).check(seen) == []
    with pytest.raises(NotEnoughData, match="13 rounds"):
        leaf_explosion(trees=13).check(seen)


def test_does_not_apply_without_data_that_are_not_trained_on() -> None:
    with pytest.raises(NotApplicable, match="no evals"):
        leaf_explosion().check(window(began(sites=("train",)), *trees(200, 14)))


@pytest.mark.parametrize(
    ("library", "fix"),
    [("xgboost", "max_depth=4"), ("lightgbm", "num_leaves"), ("catboost", "depth=")],
)
def test_fixes_are_of_the_library_that_trains_where_a_script_uses_two(
    library: str, fix: str
) -> None:
    both = [AdapterReports(step=0, adapter=one) for one in ("xgboost", "lightgbm", "catboost")]
    seen = window(began(**DEEP, library=library), *held_out(RISES), *trees(200, 14), LEARNED, *both)
    [finding] = leaf_explosion().check(seen)
    assert f"Make trees smaller: `{fix}" in finding.fixes[0]
