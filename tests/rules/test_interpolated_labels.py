from __future__ import annotations

from collections.abc import Iterable

from tests.rules.windows import window

from mothtrap.core.facts.data import BorderClasses
from mothtrap.core.findings import Severity
from mothtrap.core.window import Window
from mothtrap.rules.interpolated_labels import interpolated_labels
from mothtrap.testing import RuleTests


def looked(*classes: int, others: int = 3) -> BorderClasses:
    return BorderClasses(
        step=11, looks=5, classes=classes, places=700, others=others, location="train.py:9"
    )


class TestInterpolatedLabels(RuleTests):
    rule = interpolated_labels

    def sick(self) -> Iterable[Window]:
        yield window(looked(2, 3))

    def healthy(self) -> Iterable[Window]:
        yield window(looked(), steps=60)
        yield window(looked(1), steps=60)
        yield window(looked(2, 3, others=1), steps=60)


def test_the_classes_and_the_mode_are_named() -> None:
    [finding] = interpolated_labels().check(window(looked(2, 3)))
    assert (finding.severity, finding.step, finding.location) == (
        Severity.WARNING,
        0,
        "train.py:9",
    )
    assert "the classes 2, 3 occur only as thin lines" in finding.message
    assert finding.fixes[0].startswith('Resize label maps with `mode="nearest"`')
    [many] = interpolated_labels().check(window(looked(*range(2, 9))))
    assert "the classes 2, 3, 4, 5, 6, and more occur" in many.message
