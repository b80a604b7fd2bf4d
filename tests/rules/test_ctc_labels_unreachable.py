from __future__ import annotations

from collections.abc import Iterable

from tests.rules.windows import window

from mothtrap.core.facts.targets import CtcLabels
from mothtrap.core.findings import Finding, Severity
from mothtrap.core.window import Window
from mothtrap.rules.ctc_labels_unreachable import ctc_labels_unreachable
from mothtrap.testing import RuleTests


def looked(*, blanks: int = 0, padding: int = 0, short: int = 0, zeroed: bool = True) -> CtcLabels:
    return CtcLabels(
        step=11,
        looks=5,
        labels=500,
        blanks=blanks,
        padding=padding,
        blank=0,
        rows=100,
        short=short,
        zeroed=zeroed,
        frames=7,
        needed=9,
        location="train.py:9",
    )


class TestCtcLabelsUnreachable(RuleTests):
    rule = ctc_labels_unreachable

    def sick(self) -> Iterable[Window]:
        yield window(looked(blanks=80))
        yield window(looked(short=40))

    def healthy(self) -> Iterable[Window]:
        yield window(looked(), steps=60)
        yield window(looked(short=5), steps=60)
        yield window(looked(short=40, zeroed=False), steps=60)


def check(fact: CtcLabels) -> Finding:
    [finding] = ctc_labels_unreachable().check(window(fact))
    return finding


def test_each_fault_has_its_fix() -> None:
    letters = check(looked(blanks=80))
    assert "80 of 500 labels are 0, the number of the blank, which is never" in letters.message
    assert letters.fixes[0].startswith("Number the labels from 1")
    padded = check(looked(blanks=80, padding=80))
    assert padded.fixes[0].startswith("Pass the true lengths")
    short = check(looked(short=40))
    assert (short.severity, short.location) == (Severity.WARNING, "train.py:9")
    assert "40 of 100 rows have fewer frames than their labels need (such as 7 for 9)" in (
        short.message
    )
    assert short.fixes[0].startswith("Reduce the time axis less")
    assert check(looked(short=100)).severity is Severity.ERROR
