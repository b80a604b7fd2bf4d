from __future__ import annotations

import pytest
from tests.rules.boosting import began, ended, table, trees
from tests.rules.windows import window

from mothtrap.core.errors import NotEnoughData
from mothtrap.core.findings import Severity
from mothtrap.rules.tree_not_growing import tree_not_growing


def check(*parts, rule: tree_not_growing = tree_not_growing()):  # noqa: B008
    return rule.check(window(*parts))


def test_a_model_of_single_leaves_is_an_error_that_names_the_limit() -> None:
    fit = began(parameters={"min_child_weight": "600", "gamma": "0"})
    [finding] = check(fit, *trees(1.0, 0))
    assert finding.severity is Severity.ERROR
    assert "min_child_weight 600" in finding.message
    assert "gamma" not in finding.message
    assert finding.fixes == ("Lower `min_child_weight` from 600; the default is 1.",)


def test_the_fix_belongs_to_the_parameter_that_is_too_large() -> None:
    fit = began(parameters={"reg_lambda": "1e8", "min_child_weight": "1"})
    [finding] = check(fit, *trees(1.0, 0))
    assert "reg_lambda" in finding.fixes[0]
    light = began(parameters={"scale_pos_weight": "0.002"})
    [finding] = check(light, *trees(1.0, 0))
    assert "scale_pos_weight 0.002" in finding.message
    assert "negatives" in finding.fixes[0]


def test_row_weights_that_sum_to_1_are_named_as_the_reason() -> None:
    fit = began(parameters={"min_child_weight": "1"}, task="two_classes")
    light = table(counts=(500, 500), weighted=True, class_weights=(0.001, 0.001))
    [finding] = check(fit, light, *trees(1.0, 0))
    assert "with row weights whose sum is 1" in finding.message
    assert "mean of 1" in finding.fixes[0]
    [finding] = check(fit, table(weighted=True, class_weights=(1.0, 1.0)), *trees(1.0, 0))
    assert "row weights" not in finding.message


def test_a_short_training_is_an_error_when_it_has_ended() -> None:
    [finding] = check(began(), *trees(1.0, 0, rounds=5), ended(5))
    assert finding.severity is Severity.ERROR
    assert check(began(), *trees(1.0, 0, rounds=2), *trees(3.0, 2, rounds=3), ended(5)) == []


def test_equal_labels_are_named_as_the_reason() -> None:
    same = table(counts=(600,), label_distinct=1, label_min=0.0)
    [finding] = check(began(), same, *trees(1.0, 0))
    assert "all labels of the training data are 0" in finding.message
    assert "labels" in finding.fixes[0]


def test_trees_that_stop_growing_are_a_warning() -> None:
    late = [*trees(8.0, 3), *trees(1.0, 0)]
    [finding] = check(began(), *late)
    assert finding.severity is Severity.WARNING


def test_trees_that_a_parameter_keeps_small_are_a_warning() -> None:
    def grown(leaves: float, depth: int = 6, weight: str = "200") -> list:
        fit = began(parameters={"min_child_weight": weight}, max_depth=depth)
        return check(fit, *trees(leaves, 1, rounds=20), ended(20))

    [finding] = grown(2.0)
    assert (finding.severity, finding.title) == (Severity.WARNING, "trees hardly grow")
    assert "trees have 2 leaves on average (limit 2.5), though 64 are allowed" in finding.message
    assert finding.fixes == ("Lower `min_child_weight` from 200; the default is 1.",)
    assert grown(3.0) == []
    assert grown(2.0, depth=1) == []  # stumps on purpose
    assert grown(2.0, weight="1") == []
    few = began(parameters={"subsample": "0.01"}, max_depth=6)
    [finding] = check(few, *trees(2.0, 1, rounds=20), ended(20))
    assert "subsample 0.01" in finding.message
    assert finding.fixes[0].startswith("Train each tree on more rows")


def test_stays_quiet_while_trees_grow() -> None:
    assert check(began(), *trees(2.0, 1)) == []
    assert check(began(), *trees(1.0, 0, rounds=2), *trees(8.0, 3, rounds=10)) == []


def test_says_why_it_cannot_judge() -> None:
    with pytest.raises(NotEnoughData, match="10 rounds"):
        check(began(), *trees(1.0, 0, rounds=9))
