from __future__ import annotations

import pytest
from tests.rules.boosting import began, columns
from tests.rules.windows import window

from mothtrap.core.errors import NotEnoughData
from mothtrap.core.findings import Severity
from mothtrap.rules.missing_value_coded import missing_value_coded


def check(*parts, rule: missing_value_coded = missing_value_coded()):  # noqa: B008
    return rule.check(window(*parts))


CODED = columns(sentinels={"age": 0.12}, sentinel_values={"age": -999.0})


def test_a_sentinel_is_a_warning_with_the_advice_of_the_library() -> None:
    [finding] = check(began(library="xgboost"), CODED)
    assert finding.severity is Severity.WARNING
    assert "-999 in age" in finding.message
    assert "missing=-999" in finding.fixes[0]
    [finding] = check(began(library="lightgbm"), CODED)
    assert "replace(-999" in finding.fixes[0]


def test_stays_quiet_below_the_share() -> None:
    assert check(began(), columns()) == []
    assert check(began(), CODED, rule=missing_value_coded(share=0.2)) == []


def test_says_why_it_cannot_judge() -> None:
    with pytest.raises(NotEnoughData):
        check(began())
