from __future__ import annotations

from collections.abc import Iterable

from tests.rules.windows import window

from mothtrap.core.facts.loss_terms import ShareAdded
from mothtrap.core.findings import Severity
from mothtrap.core.window import Window
from mothtrap.rules.likelihood_minimized import likelihood_minimized
from mothtrap.testing import RuleTests


def looked(added: int) -> ShareAdded:
    return ShareAdded(step=11, looks=5, added=added, location="train.py:9")


class TestLikelihoodMinimized(RuleTests):
    rule = likelihood_minimized

    def sick(self) -> Iterable[Window]:
        yield window(looked(5))

    def healthy(self) -> Iterable[Window]:
        yield window(looked(1), steps=60)
        yield window(steps=60)


def test_the_line_is_named() -> None:
    [finding] = likelihood_minimized().check(window(looked(5)))
    assert (finding.severity, finding.location) == (Severity.WARNING, "train.py:9")
    assert "adds the logarithm of a probability in 5 of 5" in finding.message
    assert finding.fixes[0].startswith("Subtract the logarithm")
