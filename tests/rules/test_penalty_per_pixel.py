from __future__ import annotations

from collections.abc import Iterable

from tests.rules.windows import window

from mothtrap.core.facts.loss_terms import GradientPenalty
from mothtrap.core.findings import Severity
from mothtrap.core.window import Window
from mothtrap.rules.penalty_per_pixel import penalty_per_pixel
from mothtrap.testing import RuleTests


def looked(found: int) -> GradientPenalty:
    return GradientPenalty(
        step=11,
        looks=5,
        found=found,
        gradient=(32, 3, 16, 16),
        norms=(32, 16, 16),
        location="train.py:9",
    )


class TestPenaltyPerPixel(RuleTests):
    rule = penalty_per_pixel

    def sick(self) -> Iterable[Window]:
        yield window(looked(5), steps=60)

    def healthy(self) -> Iterable[Window]:
        yield window(looked(1), steps=60)
        yield window(steps=60)


def test_the_line_is_named() -> None:
    [finding] = penalty_per_pixel().check(window(looked(5), steps=60))
    assert (finding.severity, finding.location) == (Severity.WARNING, "train.py:9")
    assert "holds each of 256 norms of a sample near a constant" in finding.message
    assert finding.fixes[0].startswith("Flatten each sample first")
