from __future__ import annotations

import pytest
from tests.rules.windows import window

from mothtrap.core.errors import NotEnoughData
from mothtrap.core.facts.policies import PolicyLoss
from mothtrap.core.findings import Finding, Severity
from mothtrap.rules.policy_without_returns import policy_without_returns


def check(*, looks: int = 10, zero: int = 0, unweighted: int = 0, steps: int = 99) -> list[Finding]:
    seen = PolicyLoss(step=80, looks=looks, zero=zero, unweighted=unweighted, location="a.py:3")
    return policy_without_returns().check(window(seen, steps=steps))


def test_advantages_of_0_are_a_note() -> None:
    [finding] = check(zero=10)
    assert (finding.severity, finding.location) == (Severity.INFO, "a.py:3")
    assert "an advantage of 0 in 10 of 10 backward passes" in finding.message
    assert "equal within a group" in finding.fixes[0]


def test_log_probabilities_without_a_factor_are_a_note() -> None:
    [finding] = check(unweighted=10)
    assert "are not multiplied by a return or an advantage" in finding.message
    assert "log_prob * returns" in finding.fixes[0]


def test_one_number_for_all_actions_is_a_warning() -> None:
    seen = PolicyLoss(step=12, looks=5, constant=1.0, location="a.py:3")
    [finding] = policy_without_returns().check(window(seen, steps=99))
    assert finding.severity == Severity.WARNING
    assert "multiplied by the same number, 1, in 5 of 5 backward passes" in finding.message
    assert "reversed(range(n))" in finding.fixes[0]


@pytest.mark.parametrize("seen", [{}, {"zero": 9}, {"unweighted": 9}, {"looks": 5, "zero": 5}])
def test_stays_quiet(seen: dict[str, int]) -> None:
    assert check(**seen) == []


def test_needs_some_steps() -> None:
    with pytest.raises(NotEnoughData):
        check(steps=3)
