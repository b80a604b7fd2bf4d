from __future__ import annotations

from collections.abc import Iterable

from tests.rules.windows import window

from mothtrap.core.facts.pairs import ScoresSummed
from mothtrap.core.findings import Severity
from mothtrap.core.window import Window
from mothtrap.rules.scores_summed import scores_summed
from mothtrap.testing import RuleTests


def looked(found: int) -> ScoresSummed:
    return ScoresSummed(step=11, looks=5, found=found, scores=10, location="train.py:9")


class TestScoresSummed(RuleTests):
    rule = scores_summed

    def sick(self) -> Iterable[Window]:
        yield window(looked(5), steps=60)

    def healthy(self) -> Iterable[Window]:
        yield window(looked(1), steps=60)
        yield window(steps=60)


def test_the_line_is_named() -> None:
    [finding] = scores_summed().check(window(looked(5), steps=60))
    assert (finding.severity, finding.location) == (Severity.WARNING, "train.py:9")
    assert "10 scores are summed before a log-sigmoid in 5 of 5" in finding.message
    assert finding.fixes[0].startswith("Take the log-sigmoid first")
