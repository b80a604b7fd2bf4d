from __future__ import annotations

import pytest
from tests.rules.boosting import PLACE, SITE, began, columns, gains, table
from tests.rules.windows import series, window

from mothtrap.core.errors import NotApplicable, NotEnoughData
from mothtrap.core.findings import Severity
from mothtrap.core.steps import Mode
from mothtrap.rules.single_feature_dominates import single_feature_dominates


def metric(name: str, values: list[float]):
    return series(name, values, of=SITE, mode=Mode.EVAL, early=values[:10])


AUC = began(metrics=("auc",))
LEAK = metric("auc", [0.999] * 12)


def test_a_feature_that_gives_a_perfect_score_at_once_is_an_error() -> None:
    [finding] = single_feature_dominates().check(window(AUC, gains(0.95), LEAK))
    assert (finding.severity, finding.location) == (Severity.ERROR, PLACE)
    assert finding.layers == ("days",)
    assert "auc on valid is 0.9990 after the first round" in finding.message


def test_without_such_a_score_it_is_a_note() -> None:
    [finding] = single_feature_dominates().check(
        window(AUC, gains(0.95), metric("auc", [0.7, 0.8, 0.995]))
    )
    assert finding.severity is Severity.INFO


def test_an_error_rate_is_perfect_only_below_that_of_guessing() -> None:
    fit, zero = began(metrics=("error",)), metric("error", [0.0] * 12)
    [finding] = single_feature_dominates().check(window(fit, gains(0.95), zero, table()))
    assert finding.severity is Severity.ERROR
    rare = table(counts=(995, 5))
    [finding] = single_feature_dominates().check(window(fit, gains(0.95), zero, rare))
    assert finding.severity is Severity.INFO


def test_a_regression_that_falls_as_fast_as_the_rate_allows_is_perfect() -> None:
    fit = began(metrics=("rmse",), objective="reg:squarederror", learning_rate=0.3)
    held_out = table(SITE, None, label_std=2.0)
    fast = metric("rmse", [2.0 * 0.7 ** (n + 1) for n in range(12)])
    slow = metric("rmse", [2.0 * 0.95 ** (n + 1) for n in range(12)])
    for values, severity in ((fast, Severity.ERROR), (slow, Severity.INFO)):
        [finding] = single_feature_dominates().check(window(fit, gains(0.95), values, held_out))
        assert finding.severity is severity


@pytest.mark.parametrize(
    ("after_ten_rounds", "severity"), [(0.1985, Severity.ERROR), (0.4899, Severity.INFO)]
)
def test_a_logloss_of_trees_that_never_err_is_perfect(
    after_ten_rounds: float, severity: Severity
) -> None:
    # Measured with XGBoost 3.2 at a rate of 0.1, with and without a column made from the target.
    fit = began(learning_rate=0.1)
    falling = metric("logloss", [*[0.6] * 9, after_ten_rounds, 0.1])
    [finding] = single_feature_dominates().check(window(fit, gains(0.95), falling, table()))
    assert finding.severity is severity


def test_stays_quiet_where_features_share_the_gain() -> None:
    assert single_feature_dominates().check(window(AUC, gains(0.7), LEAK)) == []


def test_thresholds_are_what_they_say() -> None:
    seen = window(AUC, gains(0.95), LEAK)
    assert single_feature_dominates(share=0.96).check(seen) == []
    [finding] = single_feature_dominates(auc=0.9995).check(seen)
    assert finding.severity is Severity.INFO
    with pytest.raises(NotApplicable, match="8 columns"):
        single_feature_dominates(columns=9).check(seen)
    with pytest.raises(NotEnoughData, match="21 rounds"):
        single_feature_dominates(rounds=21).check(seen)


def test_says_why_it_cannot_judge() -> None:
    with pytest.raises(NotEnoughData, match="no split"):
        single_feature_dominates().check(window(AUC, LEAK))


def test_classes_that_several_columns_separate_are_easy() -> None:
    told = columns(telling={"days": 1.0, "f1": 0.95})
    assert single_feature_dominates().check(window(AUC, gains(0.6), told)) == []
    alone = columns(telling={"days": 1.0, "f1": 0.4})
    [finding] = single_feature_dominates().check(window(AUC, gains(0.6), alone))
    assert finding.severity is Severity.WARNING


def test_the_label_itself_is_a_warning_however_easy_the_classes_are() -> None:
    told = columns(telling={"days": 1.0, "f1": 0.95}, same_as_label=("days",))
    [finding] = single_feature_dominates().check(window(AUC, gains(0.6), told))
    assert finding.severity is Severity.WARNING
    assert "it contains the label" in finding.message
