from __future__ import annotations

from collections.abc import Iterable

from tests.rules.windows import window

from mothtrap.core.facts.loss_terms import OverlapOfScores
from mothtrap.core.findings import Severity
from mothtrap.core.window import Window
from mothtrap.rules.overlap_of_scores import overlap_of_scores
from mothtrap.testing import RuleTests


def looked(found: int, channels: int = 1) -> OverlapOfScores:
    shape = (4, channels, 8, 8)
    return OverlapOfScores(step=11, looks=5, found=found, shape=shape, location="train.py:9")


class TestOverlapOfScores(RuleTests):
    rule = overlap_of_scores

    def sick(self) -> Iterable[Window]:
        yield window(looked(5))

    def healthy(self) -> Iterable[Window]:
        yield window(looked(1), steps=60)
        yield window(steps=60)


def test_the_activation_depends_on_the_number_of_classes() -> None:
    [finding] = overlap_of_scores().check(window(looked(5)))
    assert (finding.severity, finding.step) == (Severity.WARNING, 0)
    assert finding.fixes[0].startswith("Apply a sigmoid")
    [finding] = overlap_of_scores().check(window(looked(5, channels=3)))
    assert finding.fixes[0].startswith("Apply a softmax")


def test_two_activations_have_their_own_title_and_fix() -> None:
    twice = OverlapOfScores(
        step=11, looks=5, found=5, shape=(4, 2, 8, 8), twice=("sigmoid", "softmax")
    )
    [finding] = overlap_of_scores().check(window(twice))
    assert finding.title == "two activations before a Dice loss"
    assert "gets a sigmoid of a softmax in 5 of 5" in finding.message
    assert finding.fixes[0].startswith("Apply only one activation: remove the sigmoid")
