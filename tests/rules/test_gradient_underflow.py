from __future__ import annotations

import pytest
from tests.rules.windows import window

from mothtrap.core.errors import NotApplicable, NotEnoughData
from mothtrap.core.facts.modules import HalfPrecision
from mothtrap.core.findings import Finding, Severity
from mothtrap.rules.gradient_underflow import gradient_underflow


def look(step: int, small: float, tensor: str = "gradient:0.weight") -> HalfPrecision:
    return HalfPrecision(
        step=step,
        tensor=tensor,
        module="0",
        dtype="float16",
        elements=100,
        largest=1e-3,
        limit=65504.0,
        small=small,
        zero=0.1,
        location="model.py:4",
    )


def check(*shares: float, tensor: str = "gradient:0.weight") -> list[Finding]:
    looks = [look(step, share, tensor) for step, share in enumerate(shares)]
    return gradient_underflow().check(window(*looks, steps=60))


def test_fires_when_most_values_are_too_small_for_long() -> None:
    [finding] = check(0.1, 0.7, 0.8, 0.9)
    assert (finding.severity, finding.step, finding.count) == (Severity.WARNING, 1, 3)
    assert finding.layers == ("0.weight",)
    assert finding.location == "model.py:4"


@pytest.mark.parametrize("shares", [(0.1, 0.1, 0.1), (0.9, 0.9, 0.9, 0.2), (0.9, 0.2, 0.9)])
def test_stays_quiet(shares: tuple[float, ...]) -> None:
    assert check(*shares) == []


def test_says_what_it_lacks() -> None:
    with pytest.raises(NotApplicable, match="no gradient was computed in float16"):
        check(0.9, 0.9, 0.9, tensor="activation:0")
    with pytest.raises(NotEnoughData, match="needs 3 sampled steps, saw 2"):
        check(0.9, 0.9)
