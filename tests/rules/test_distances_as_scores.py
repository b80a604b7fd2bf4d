from __future__ import annotations

from collections.abc import Iterable

from tests.rules.windows import window

from mothtrap.core.facts.pairs import DistancesAsScores
from mothtrap.core.findings import Severity
from mothtrap.core.window import Window
from mothtrap.rules.distances_as_scores import distances_as_scores
from mothtrap.testing import RuleTests


def looked(found: int) -> DistancesAsScores:
    return DistancesAsScores(step=11, looks=5, found=found, choices=16, location="train.py:9")


class TestDistancesAsScores(RuleTests):
    rule = distances_as_scores

    def sick(self) -> Iterable[Window]:
        yield window(looked(5))

    def healthy(self) -> Iterable[Window]:
        yield window(looked(1), steps=60)
        yield window(steps=60)


def test_the_line_and_the_sign_are_named() -> None:
    [finding] = distances_as_scores().check(window(looked(5)))
    assert (finding.severity, finding.step, finding.location) == (
        Severity.WARNING,
        0,
        "train.py:9",
    )
    assert "the 16 scores of the cross-entropy are distances in 5 of 5" in finding.message
    assert finding.fixes[0].startswith("Negate the distances")
