from __future__ import annotations

from collections.abc import Iterable

import pytest
from tests.rules.windows import window

from mothtrap.core.errors import NotEnoughData
from mothtrap.core.facts.policies import PolicyLoss
from mothtrap.core.findings import Severity
from mothtrap.core.window import Window
from mothtrap.rules.entropy_minimized import entropy_minimized
from mothtrap.testing import RuleTests


def looked(added: int | None, *, looks: int = 5) -> PolicyLoss:
    return PolicyLoss(step=11, looks=looks, entropy_added=added, location="train.py:9")


class TestEntropyMinimized(RuleTests):
    rule = entropy_minimized

    def sick(self) -> Iterable[Window]:
        yield window(looked(5), steps=60)

    def healthy(self) -> Iterable[Window]:
        yield window(looked(0), steps=60)
        yield window(looked(4), steps=60)
        yield window(looked(3, looks=3), steps=60)


def test_the_line_is_named() -> None:
    [finding] = entropy_minimized().check(window(looked(5), steps=60))
    assert (finding.severity, finding.location) == (Severity.WARNING, "train.py:9")
    assert "is added to its loss in 5 of 5 sampled backward passes" in finding.message
    assert finding.fixes[0].startswith("Subtract the entropy")


def test_older_runs_do_not_show_it() -> None:
    with pytest.raises(NotEnoughData):
        entropy_minimized().check(window(looked(None), steps=60))
