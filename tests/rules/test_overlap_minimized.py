from __future__ import annotations

import pytest
from tests.rules.windows import window

from mothtrap.core.errors import NotApplicable, NotEnoughData
from mothtrap.core.facts.loss_terms import OverlapAdded
from mothtrap.core.findings import Finding, Severity
from mothtrap.rules.overlap_minimized import overlap_minimized


def check(*, looks: int = 5, added: int = 5, steps: int = 20) -> list[Finding]:
    seen = OverlapAdded(step=12, looks=looks, added=added, location="net.py:9")
    return overlap_minimized().check(window(seen, steps=steps))


def test_an_overlap_that_is_added_is_a_warning() -> None:
    [finding] = check()
    assert (finding.severity, finding.location) == (Severity.WARNING, "net.py:9")
    assert "minimizing it makes the overlap smaller" in finding.message
    assert finding.fixes[0] == "Subtract the overlap: `loss = 1 - dice`."


def test_stays_quiet() -> None:
    assert check(added=4) == []
    assert check(looks=3, added=3) == []
    with pytest.raises(NotApplicable):
        overlap_minimized().check(window(steps=20))
    with pytest.raises(NotEnoughData):
        check(steps=2)
