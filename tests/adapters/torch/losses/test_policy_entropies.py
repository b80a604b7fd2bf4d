"""Signs of entropies in the losses of policies."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from tests.adapters.torch.watched import sgd, watched
from torch import nn
from torch.distributions import Categorical, Normal

from mothtrap.core.facts.policies import PolicyLoss

Tensor = torch.Tensor
Policy = Callable[[Tensor], Categorical | Normal]
Loss = Callable[[Tensor, Tensor], Tensor]


def counted(loss_of: Loss, policy: Policy) -> tuple[int, int | None]:
    """Train on a policy gradient and an entropy; return the inspections, and those with a fault."""
    torch.manual_seed(0)
    model = nn.Linear(4, 6)
    with watched() as seen:
        optimizer = sgd(model)
        for _ in range(14):
            choices = policy(model(torch.randn(16, 4)))
            score = choices.log_prob(choices.sample())
            gain = (score * torch.randn(score.shape)).mean()
            optimizer.zero_grad()
            loss_of(-gain, choices.entropy()).backward()
            optimizer.step()
        assert seen.failed() == []
        [one] = [one for one in seen.observed(PolicyLoss) if isinstance(one, PolicyLoss)]
    return one.looks, one.entropy_added


POLICIES: list[Policy] = [
    lambda z: Categorical(logits=z),
    lambda z: Categorical(probs=z.softmax(-1)),
    lambda z: Normal(z[:, :3], nn.functional.softplus(z[:, 3:])),
    lambda z: Normal(z[:, :3], z[:, 3:].exp()),
]
NAMES = ["logits", "probabilities", "normal", "normal of a log scale"]


@pytest.mark.parametrize("policy", POLICIES, ids=NAMES)
@pytest.mark.parametrize(
    "loss_of",
    [
        lambda loss, entropy: loss + 0.01 * entropy.mean(),
        lambda loss, entropy: loss - -0.01 * entropy.sum(),
        lambda loss, entropy: 0.5 * (loss - (-entropy).mean() * 0.1),
    ],
    ids=["added", "twice negated", "scaled"],
)
def test_an_added_entropy(loss_of: Loss, policy: Policy) -> None:
    assert counted(loss_of, policy) == (5, 5)


@pytest.mark.parametrize("policy", POLICIES, ids=NAMES)
@pytest.mark.parametrize(
    "loss_of",
    [
        lambda loss, entropy: loss - 0.01 * entropy.mean(),
        lambda loss, entropy: loss + 0.01 * (-entropy).mean(),
        lambda loss, entropy: -(-loss + 0.01 * entropy.mean()),
        lambda loss, entropy: loss + 0.0 * entropy.mean(),
        lambda loss, entropy: loss + 0.01 * (entropy.mean() - 1).square(),
        lambda loss, _: loss,
    ],
    ids=["subtracted", "negated", "of a gain", "switched off", "held at a level", "none"],
)
def test_other_entropies(loss_of: Loss, policy: Policy) -> None:
    assert counted(loss_of, policy) == (5, 0)


def test_hand_written_entropies() -> None:
    def loss_of(sign: float) -> int | None:
        torch.manual_seed(0)
        model = nn.Linear(4, 3)
        with watched() as seen:
            optimizer = sgd(model)
            for _ in range(14):
                p = model(torch.randn(16, 4)).softmax(-1)
                action = Categorical(p.detach()).sample()
                gain = (p.gather(1, action[:, None]).squeeze(1).log() * torch.randn(16)).mean()
                entropy = -(p * torch.log(p + 1e-8)).sum(-1).mean()
                optimizer.zero_grad()
                (-gain + sign * 0.01 * entropy).backward()
                optimizer.step()
            assert seen.failed() == []
            [one] = [one for one in seen.observed(PolicyLoss) if isinstance(one, PolicyLoss)]
        return one.entropy_added

    assert (loss_of(1.0), loss_of(-1.0)) == (5, 0)
