from __future__ import annotations

import pytest
from tests.rules.windows import window

from mothtrap.core.errors import NotApplicable, NotEnoughData
from mothtrap.core.facts.policies import PolicyEntropy
from mothtrap.core.findings import Finding, Severity
from mothtrap.rules.policy_entropy_gone import policy_entropy_gone


def check(*shares: float, first: float = 0.98) -> list[Finding]:
    """Check a policy whose reports after 20, 40, 80, ... steps give `shares`."""
    facts = [
        PolicyEntropy(step=20 * 2**n, share=share, first=first, choices=4, looks=20 * 2**n)
        for n, share in enumerate(shares)
    ]
    return policy_entropy_gone().check(window(*facts, steps=400))


def test_a_policy_that_stopped_trying_is_a_note() -> None:
    [finding] = check(0.4, 0.001, 0.0005)
    assert (finding.severity, finding.step, finding.last_step) == (Severity.INFO, 40, 80)
    assert "relative to 4 equally likely actions, fell from 98 % to 0.05 %" in finding.message
    assert "sign of the entropy term" in finding.fixes[0]


def test_stays_quiet() -> None:
    assert check(0.9, 0.5, 0.3) == []
    assert check(0.5, 0.05, 0.001) == []  # gone in the latest report only
    assert check(0.0, 0.0, first=0.1) == []
    assert check(0.001, 0.001, 0.4) == []  # it came back


def test_needs_two_reports() -> None:
    with pytest.raises(NotEnoughData):
        check(0.001)
    with pytest.raises(NotApplicable):
        check()
