from __future__ import annotations

import pytest
from tests.rules.boosting import began
from tests.rules.windows import window

from mothtrap.core.errors import NotApplicable
from mothtrap.core.facts.data import RowsShared
from mothtrap.core.findings import Severity
from mothtrap.rules.evaluated_on_training import evaluated_on_training


def check(*parts, rule: evaluated_on_training = evaluated_on_training()):  # noqa: B008
    return rule.check(window(*parts))


def test_training_data_under_another_name_are_a_warning() -> None:
    for name in ("validation_0", "valid", "eval", "test"):
        [finding] = check(began(sites=(name,), train_site=name))
        assert finding.severity is Severity.WARNING
    [finding] = check(began(sites=("train",), train_site="train"))
    assert finding.severity is Severity.INFO


@pytest.mark.parametrize("settings", [{"stops_after": 10}, {"parameters": {"od_wait": "10"}}])
def test_early_stopping_needs_other_rows(settings: dict[str, object]) -> None:
    [finding] = check(began(sites=("learn",), train_site="learn", **settings))
    assert finding.severity is Severity.WARNING
    assert "early stopping after 10 rounds has no effect" in finding.message
    assert check(began(sites=("learn", "valid"), train_site="learn", **settings)) == []


def copied(shared: int, eval_rows: int = 1000) -> RowsShared:
    return RowsShared(
        step=0,
        module="the booster",
        argument="the features",
        source="valid",
        train_rows=1000,
        eval_rows=eval_rows,
        shared=shared,
        expected_share=0.0,
    )


def test_a_table_made_of_the_same_rows_is_no_other_evaluation() -> None:
    [finding] = check(began(), copied(1000))
    assert finding.severity is Severity.WARNING
    assert "train, valid, are the training data" in finding.message
    assert check(began(), copied(300, 300)) == []
    assert check(began(), copied(900)) == []
    assert check(began(), copied(900), rule=evaluated_on_training(share=0.9))


def test_stays_quiet_where_other_rows_are_evaluated() -> None:
    assert check(began()) == []


def test_says_why_it_cannot_judge() -> None:
    with pytest.raises(NotApplicable, match="no evals"):
        check(began(sites=(), train_site=""))
