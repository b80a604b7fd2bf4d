from __future__ import annotations

import pytest
from tests.rules.boosting import PLACE, began, columns, gains
from tests.rules.windows import window

from mothtrap.core.errors import NotEnoughData
from mothtrap.core.findings import Severity
from mothtrap.rules.identifier_feature import identifier_feature


def check(*parts, rule: identifier_feature = identifier_feature()):  # noqa: B008
    return rule.check(window(*parts))


NUMBERED = columns(identifiers=("days",))


def test_a_column_that_numbers_the_rows_and_is_used_is_a_warning() -> None:
    [finding] = check(began(), NUMBERED, gains(0.4))
    assert (finding.severity, finding.location) == (Severity.WARNING, PLACE)
    assert finding.layers == ("days",)
    assert finding.evidence["value"] == pytest.approx(0.4)


def test_one_that_is_hardly_used_is_a_note() -> None:
    [finding] = check(began(), columns(identifiers=("other",)), gains(0.4))
    assert finding.severity is Severity.INFO


def test_stays_quiet_without_one() -> None:
    assert check(began(), columns(), gains(0.99)) == []


def test_says_why_it_cannot_judge() -> None:
    with pytest.raises(NotEnoughData, match="splits"):
        check(began(), NUMBERED)
    with pytest.raises(NotEnoughData, match="saw 50"):
        check(began(), columns(identifiers=("days",), looked_at=50), gains(0.4))
