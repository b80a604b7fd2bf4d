from __future__ import annotations

from collections.abc import Iterable

import pytest
from tests.rules.windows import window

from mothtrap.core.errors import NotEnoughData
from mothtrap.core.facts.targets import SoftTargets
from mothtrap.core.findings import Severity
from mothtrap.core.window import Window
from mothtrap.rules.soft_targets_of_other_rows import soft_targets_of_other_rows
from mothtrap.testing import RuleTests


def compared(
    agree: int, *, given: tuple[int, ...] = (80, 90, 70, 60), rows: int = 300, surest: float = 0.6
):
    return SoftTargets(
        step=80,
        looks=7,
        surest=surest,
        rows=rows,
        agree=agree,
        given=given,
        labels=(75, 75, 75, 75),
        location="train.py:9",
    )


class TestSoftTargetsOfOtherRows(RuleTests):
    rule = soft_targets_of_other_rows

    def sick(self) -> Iterable[Window]:
        yield window(compared(75), steps=100)

    def healthy(self) -> Iterable[Window]:
        yield window(compared(120), steps=100)
        yield window(compared(280), steps=100)
        yield window(compared(75, surest=0.3), steps=100)
        yield window(compared(75, given=(290, 10, 0, 0)), steps=100)


def test_the_line_is_named() -> None:
    [finding] = soft_targets_of_other_rows().check(window(compared(70), steps=100))
    assert (finding.severity, finding.location) == (Severity.WARNING, "train.py:9")
    assert "is the label in 23 % of 300 rows (by chance in 25 %)" in finding.message


def test_needs_many_rows() -> None:
    with pytest.raises(NotEnoughData):
        soft_targets_of_other_rows().check(window(compared(20, rows=100), steps=100))
