from __future__ import annotations

import pytest
from tests.rules.windows import window

from mothtrap.core.errors import NotApplicable
from mothtrap.core.facts.modules import HalfPrecision
from mothtrap.core.findings import Finding, Severity
from mothtrap.rules.overflow_risk import overflow_risk


def look(step: int, largest: float, tensor: str = "activation:pool") -> HalfPrecision:
    return HalfPrecision(
        step=step,
        tensor=tensor,
        module="pool",
        dtype="float16",
        elements=100,
        largest=largest,
        limit=65504.0,
        small=0.0,
        zero=0.0,
        location="model.py:4",
    )


def check(*seen: HalfPrecision) -> list[Finding]:
    return overflow_risk().check(window(*seen, steps=60))


def test_fires_on_values_within_three_doublings_of_the_end() -> None:
    [finding] = check(look(0, 100.0), look(1, 9000.0), look(2, 12000.0))
    assert (finding.severity, finding.step, finding.count) == (Severity.WARNING, 1, 2)
    assert finding.layers == ("pool",)
    assert "1.2e+04" in finding.message
    assert finding.location == "model.py:4"


def test_stays_quiet_far_from_the_end() -> None:
    assert check(look(0, 100.0), look(1, 8000.0)) == []


def test_without_half_precision_it_does_not_apply() -> None:
    with pytest.raises(NotApplicable, match="no float16 output or gradient"):
        check()
