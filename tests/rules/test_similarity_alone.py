from __future__ import annotations

import pytest
from tests.rules.windows import loss, window

from mothtrap.core.errors import NotEnoughData
from mothtrap.core.facts.pairs import SimilarityLoss
from mothtrap.core.findings import Finding, Severity
from mothtrap.rules.similarity_alone import similarity_alone


def check(both: int, one: int = 0) -> list[Finding]:
    fact = SimilarityLoss(step=20, looks=5, both=both, one=one, location="train.py:9")
    return similarity_alone().check(window(fact, loss([1.0] * 30)))


def test_both_sides_carry_a_gradient() -> None:
    [finding] = check(5)
    assert (finding.severity, finding.location) == (Severity.WARNING, "train.py:9")
    assert "a constant output minimizes it" in finding.message
    assert ".detach()" in finding.fixes[0]


def test_one_side_is_a_target() -> None:
    assert check(0, 5) == []
    assert check(3, 2) == []


def test_waits_for_steps() -> None:
    with pytest.raises(NotEnoughData):
        similarity_alone().check(window(loss([1.0])))
