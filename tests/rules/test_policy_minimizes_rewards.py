from __future__ import annotations

import pytest
from tests.rules.windows import window

from mothtrap.core.errors import NotApplicable, NotEnoughData
from mothtrap.core.facts.optimizers import OptimizerFacts, UpdateDirection
from mothtrap.core.facts.policies import PolicyLoss
from mothtrap.core.findings import Finding, Severity
from mothtrap.rules.policy_minimizes_rewards import policy_minimizes_rewards

ADAM = OptimizerFacts(step=0, optimizer="Adam", kind="Adam")


def check(
    *, looks: int = 5, added: int = 5, steps: int = 20, optimizer: OptimizerFacts | None = ADAM
) -> list[Finding]:
    seen = PolicyLoss(step=12, looks=looks, added=added, location="a.py:3")
    facts = [seen] if optimizer is None else [seen, optimizer]
    return policy_minimizes_rewards().check(window(*facts, steps=steps))


def test_gains_that_are_added_are_a_warning() -> None:
    [finding] = check()
    assert (finding.severity, finding.location) == (Severity.WARNING, "a.py:3")
    assert "are added to the loss in 5 of 5 sampled backward passes" in finding.message
    assert finding.fixes[0].startswith("Subtract the term")


def test_a_value_that_is_added_is_a_warning() -> None:
    seen = PolicyLoss(step=12, looks=8, added=8, by_value=True, location="ddpg.py:9")
    [finding] = policy_minimizes_rewards().check(window(seen, ADAM, steps=20))
    assert "makes the policy choose the worst actions" in finding.message
    assert finding.fixes[0].startswith("Subtract the value")


@pytest.mark.parametrize(("looks", "added"), [(5, 0), (5, 4), (3, 3)])
def test_stays_quiet(looks: int, added: int) -> None:
    assert check(looks=looks, added=added) == []


def test_of_two_players_one_minimizes_the_rewards_of_the_other() -> None:
    seen = PolicyLoss(step=12, looks=5, added=5, location="a.py:3")
    other = PolicyLoss(step=12, looks=5, added=0, location="a.py:9")
    assert policy_minimizes_rewards().check(window(seen, other, ADAM, steps=20)) == []


def test_needs_a_loss_that_an_optimizer_minimizes() -> None:
    with pytest.raises(NotApplicable):
        check(optimizer=None)
    with pytest.raises(NotApplicable):
        check(optimizer=OptimizerFacts(step=0, optimizer="Adam", kind="Adam", maximizes=True))
    with pytest.raises(NotApplicable):
        policy_minimizes_rewards().check(window(ADAM, steps=20))
    with pytest.raises(NotEnoughData):
        check(steps=2)


@pytest.mark.parametrize(("cosine", "found"), [(-0.4, 1), (0.4, 0)])
def test_first_steps_show_whether_a_loss_is_minimized(cosine: float, found: int) -> None:
    seen = PolicyLoss(step=12, looks=5, added=5, location="a.py:3")
    moved = UpdateDirection(step=1, optimizer="update", layers=("w",), cosines=(cosine,))
    if found:
        assert len(policy_minimizes_rewards().check(window(seen, moved, steps=20))) == found
    else:
        with pytest.raises(NotApplicable):
            policy_minimizes_rewards().check(window(seen, moved, steps=20))


def test_values_of_a_critic_are_named() -> None:
    seen = PolicyLoss(step=12, looks=5, added=5, by_value=True, location="a.py:3")
    [finding] = policy_minimizes_rewards().check(window(seen, ADAM, steps=20))
    assert "the value that a network predicts" in finding.message
    assert finding.fixes[0].startswith("Subtract the value")
