from __future__ import annotations

import pytest
from tests.rules.boosting import began, columns
from tests.rules.windows import window

from mothtrap.core.errors import NotEnoughData
from mothtrap.core.findings import Severity
from mothtrap.rules.categorical_as_number import categorical_as_number


def check(*parts, rule: categorical_as_number = categorical_as_number()):  # noqa: B008
    return rule.check(window(*parts))


def test_codes_without_an_order_are_a_warning() -> None:
    [finding] = check(began(), columns(codes=("city", "shop")))
    assert finding.severity is Severity.WARNING
    assert "city and 1 more" in finding.message


def test_stays_quiet_without_codes() -> None:
    assert check(began(), columns()) == []


def test_says_why_it_cannot_judge() -> None:
    with pytest.raises(NotEnoughData):
        check(began())
    with pytest.raises(NotEnoughData, match="saw 20"):
        check(began(), columns(codes=("city",), looked_at=20))


def test_columns_that_are_declared_instead_are_named() -> None:
    [finding] = check(began(), columns(codes=("gene_b", "gene_c"), ordered=("age",)))
    assert finding.severity is Severity.WARNING
    assert finding.message == (
        "age is declared as categories, but the label follows the numbers; gene_b, gene_c, which "
        "look like category codes without an order, are not declared: the indices of the "
        "categorical columns are probably wrong"
    )
    assert finding.fixes[0].startswith("Check which columns are declared")
    assert check(began(), columns(ordered=("age",))) == []
