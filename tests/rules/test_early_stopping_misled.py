from __future__ import annotations

import pytest
from tests.rules.boosting import began, ended
from tests.rules.windows import window

from mothtrap.core.errors import NotApplicable
from mothtrap.core.findings import Severity
from mothtrap.rules.early_stopping_misled import early_stopping_misled


def check(*parts, rule: early_stopping_misled = early_stopping_misled()):  # noqa: B008
    return rule.check(window(*parts))


WRONG = began(stops_after=10, stops_on="valid/accuracy", stops_rising=False)


def test_a_score_that_is_taken_for_a_loss_is_an_error_once_it_stopped() -> None:
    [finding] = check(WRONG)
    assert finding.severity is Severity.WARNING
    [finding] = check(WRONG, ended(11, best=0))
    assert finding.severity is Severity.ERROR
    assert "round 0 of 11" in finding.message
    assert [fix.split(":")[0] for fix in finding.fixes] == ["State which direction is better"]
    [finding] = check(began(stops_after=10, stops_on="valid/my_rmse", stops_rising=True))
    assert "a smaller my_rmse is better" in finding.message


def test_data_that_are_trained_on_are_a_warning() -> None:
    [finding] = check(began(stops_after=10, stops_on="train/logloss", stops_rising=False))
    assert "the training data" in finding.message
    assert not any("which way" in fix for fix in finding.fixes)


def test_a_stop_by_data_that_the_library_passes_over_is_a_warning() -> None:
    """LightGBM never stops on the training data, and does not warn about it with two metrics."""
    only = {"sites": ("training",), "train_site": "training", "library": "lightgbm"}
    [finding] = check(began(stops_after=5, stops_on="", **only))
    assert "lightgbm never stops on them" in finding.message
    with pytest.raises(NotApplicable):
        check(began(**only))


@pytest.mark.parametrize(
    "fit",
    [
        began(stops_after=10, stops_on="valid/logloss", stops_rising=False),
        began(stops_after=10, stops_on="valid/auc", stops_rising=True),
        began(stops_after=10, stops_on="valid/profit", stops_rising=False),
        began(stops_after=10, stops_on="valid/accuracy", stops_rising=None),
    ],
)
def test_stays_quiet(fit) -> None:
    assert check(fit, ended(30, best=1)) == []


def test_says_why_it_cannot_judge() -> None:
    with pytest.raises(NotApplicable, match="early stopping is not used"):
        check(began())
