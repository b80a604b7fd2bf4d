from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from tests.adapters.torch.watched import sgd, watched
from torch import nn
from torch.distributions import Categorical

from mothtrap.adapters.torch.losses import policies
from mothtrap.core.facts.policies import PolicyEntropy, PolicyLoss

Tensor = torch.Tensor
Loss = Callable[[Tensor, Tensor], Tensor]


def found(
    loss: Loss, *, imitates: bool = False, one_by_one: bool = False, steps: int = 14
) -> PolicyLoss | None:
    """Return the fact about a policy whose loss is computed from log probabilities and rewards.

    The first of them comes after 5 looks, within 14 steps.
    """
    torch.manual_seed(0)
    policy = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 3))
    with watched() as seen:
        optimizer = sgd(policy)
        for _ in range(steps):
            if one_by_one:
                scores = torch.stack([_score(policy, torch.randn(4), imitates) for _ in range(3)])
            else:
                scores = _score(policy, torch.randn(16, 4), imitates)
            optimizer.zero_grad()
            loss(scores, torch.randn(len(scores))).backward()
            optimizer.step()
        assert seen.failed() == []
        every = [one for one in seen.observed(PolicyLoss) if isinstance(one, PolicyLoss)]
    return every[-1] if every else None


def _score(policy: nn.Module, state: Tensor, imitates: bool) -> Tensor:
    choices = Categorical(logits=policy(state))
    drawn = choices.sample()
    action = torch.randint(0, 3, drawn.shape) if imitates else drawn
    return choices.log_prob(action)


@pytest.mark.parametrize("one_by_one", [False, True])
def test_log_probabilities_of_own_actions_without_a_factor_are_told(one_by_one: bool) -> None:
    one = found(lambda score, _: -score.mean(), one_by_one=one_by_one, steps=82)
    assert one is not None
    assert (one.looks, one.zero, one.unweighted) == (10, 0, 10)
    assert "test_policies.py" in (one.location or "")


@pytest.mark.parametrize(
    "loss",
    [
        lambda score, rewards: -(score * (rewards - rewards)).mean(),
        lambda score, rewards: -(0 * rewards * (score - score.detach()).exp()).mean(),
        lambda score, rewards: (
            (-score * torch.zeros_like(rewards)).sum() + 0.01 * score.exp().sum()
        ),
    ],
)
def test_advantages_of_0_are_told(loss: Loss) -> None:
    one = found(loss)
    assert one is not None
    assert (one.looks, one.zero, one.unweighted) == (5, 5, 0)


@pytest.mark.parametrize("one_by_one", [False, True])
def test_advantages_are_counted_as_such(one_by_one: bool) -> None:
    one = found(lambda score, rewards: -(score * rewards).mean(), one_by_one=one_by_one)
    assert one is not None
    assert (one.looks, one.zero, one.unweighted) == (5, 0, 0)


def one_by_one(score: Tensor, rewards: Tensor) -> Tensor:
    """Weight the log probabilities of an episode in a loop."""
    return torch.stack([s * r for s, r in zip(score, rewards, strict=True)]).sum()


SIGNS: list[tuple[Loss, bool]] = [
    (lambda score, rewards: (score * rewards).mean(), True),
    (lambda score, rewards: (rewards * score).sum() * 0.5, True),
    (lambda score, rewards: (torch.cat([score, score]) * rewards.repeat(2)).sum(), True),
    (lambda score, rewards: one_by_one(score, rewards), True),
    (lambda score, rewards: (rewards * (score - score.detach()).exp()).mean(), True),
    (lambda score, rewards: -(score * rewards).mean(), False),
    (lambda score, rewards: (-score * rewards).mean(), False),
    (lambda score, rewards: (-1 * score * rewards).mean(), False),
    (lambda score, rewards: -1 * (score * rewards).mean(), False),
    (lambda score, rewards: 1 - (score * rewards).mean(), False),
    (lambda score, rewards: one_by_one(-score, rewards), False),
    (lambda score, rewards: -0.5 * (score * rewards).mean(), False),  # its sign is unknown
]


@pytest.mark.parametrize(("loss", "added"), SIGNS)
def test_products_with_a_plus_sign_are_counted(
    loss: Loss, added: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(policies, "maximizes_rewards", lambda files, _: bool(files))
    one = found(loss)
    assert one is not None
    assert one.added == (one.looks if added else 0)


def test_a_sign_says_nothing_without_an_environment() -> None:
    one = found(lambda score, rewards: (score * rewards).mean())
    assert one is not None
    assert one.added == 0


def test_the_logarithm_of_a_chosen_probability_is_one_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(policies, "maximizes_rewards", lambda files, _: bool(files))
    torch.manual_seed(0)
    policy = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 3), nn.Softmax(-1))
    with watched() as seen:
        optimizer = sgd(policy)
        for _ in range(14):
            optimizer.zero_grad()
            (torch.log(policy(torch.randn(4))[1]) * torch.randn(())).backward()
            optimizer.step()
        [one] = [one for one in seen.observed(PolicyLoss) if isinstance(one, PolicyLoss)]
    assert (one.looks, one.added) == (5, 5)


@pytest.mark.parametrize("sign", [1, -1])
def test_continuous_actions_have_log_probabilities(
    sign: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(policies, "maximizes_rewards", lambda files, _: bool(files))
    policy = nn.Linear(4, 2)
    with watched() as seen:
        optimizer = sgd(policy)
        for _ in range(14):
            choices = torch.distributions.Normal(policy(torch.randn(8, 4)), 0.5)
            score = choices.log_prob(choices.sample()).sum(-1)
            optimizer.zero_grad()
            (sign * (score * torch.randn(8)).mean()).backward()
            optimizer.step()
        [one] = [one for one in seen.observed(PolicyLoss) if isinstance(one, PolicyLoss)]
    assert (one.looks, one.added) == (5, 5 if sign > 0 else 0)


def test_imitation_is_no_policy_gradient() -> None:
    assert found(lambda score, _: -score.mean(), imitates=True, steps=82) is None


@pytest.mark.parametrize("given", ["logits", "probs"])
def test_the_entropy_of_draws_is_a_share_of_the_largest(given: str) -> None:
    torch.manual_seed(0)
    policy = nn.Linear(4, 3)
    with watched() as seen:
        optimizer = sgd(policy)
        for step in range(45):
            sharpness = 0.0 if step < 25 else 1000.0
            scores = policy(torch.randn(16, 4)) * sharpness
            values = scores if given == "logits" else scores.softmax(-1)
            choices = Categorical(**{given: values})
            optimizer.zero_grad()
            (-choices.log_prob(choices.sample()) * torch.randn(16)).mean().backward()
            optimizer.step()
        assert seen.failed() == []
        every = [one for one in seen.observed(PolicyEntropy) if isinstance(one, PolicyEntropy)]
    assert [one.looks for one in every] == [5, 10, 20, 40]
    assert {(one.choices, round(one.first, 3)) for one in every} == {(3, 1.0)}
    assert every[2].share == pytest.approx(1.0)
    assert every[3].share < 0.1


@pytest.mark.parametrize(
    ("loss", "constant"),
    [
        (lambda score, rewards: -(score * torch.ones_like(rewards)).mean(), 1.0),
        (lambda score, rewards: -(score * rewards).mean(), None),
        (lambda score, rewards: -(score * rewards[0].expand(16)).mean(), None),
        (lambda score, rewards: -(score.sum() * 2.0), None),
        (lambda score, rewards: -(score * 0 * rewards).mean(), None),
    ],
)
@pytest.mark.parametrize("rewarded", [True, False])
def test_one_weight_of_all_actions(
    monkeypatch: pytest.MonkeyPatch, loss: Loss, constant: float | None, rewarded: bool
) -> None:
    monkeypatch.setattr(policies, "maximizes_rewards", lambda files, _: rewarded and bool(files))
    one = found(loss)
    assert (one.constant if one is not None else None) == (constant if rewarded else None)
