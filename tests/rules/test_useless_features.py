from __future__ import annotations

import pytest
from tests.rules.boosting import began, columns, table
from tests.rules.windows import window

from mothtrap.core.errors import NotEnoughData
from mothtrap.core.findings import Severity
from mothtrap.rules.useless_features import useless_features


def check(*parts, rule: useless_features = useless_features()):  # noqa: B008
    return rule.check(window(*parts))


def test_a_column_without_a_value_is_a_warning() -> None:
    [finding] = check(began(), table(constant=("age",)), columns(empty=("age",)))
    assert finding.severity is Severity.WARNING
    assert "1 without a value (age)" in finding.message
    assert "one value" not in finding.message


def test_many_constants_and_copies_are_a_warning_few_a_note() -> None:
    [finding] = check(began(), table(constant=("a", "b")), columns(copies=(("c", "d"),)))
    assert finding.severity is Severity.WARNING
    assert "2 with one value in all rows (a, b); 1 equal to another column (d)" in finding.message
    [finding] = check(began(), table(constant=("a",)), columns())
    assert finding.severity is Severity.INFO


def test_stays_quiet_where_all_columns_vary() -> None:
    assert check(began(), table(constant=()), columns()) == []


def test_says_why_it_cannot_judge() -> None:
    with pytest.raises(NotEnoughData):
        check(began(), table())
