from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from tests.adapters.torch.watched import sgd, watched
from torch import nn

from mothtrap.core.facts.targets import TrainedTarget

Step = Callable[[nn.Module, nn.Module], torch.Tensor]
STEPS = 14


def found(step: Step) -> list[tuple[int, int, int]]:
    """Return counts of inspections, trained targets and idle targets; only `model` is stepped."""
    torch.manual_seed(0)
    model, other = nn.Linear(6, 3), nn.Linear(6, 3)
    with watched() as seen:
        optimizer = sgd(model)
        for _ in range(STEPS):
            optimizer.zero_grad()
            step(model, other).backward()
            optimizer.step()
        assert seen.failed() == []
        every = [one for one in seen.observed(TrainedTarget) if isinstance(one, TrainedTarget)]
    return [(one.looks, one.trained, one.idle) for one in every]


def state() -> torch.Tensor:
    return torch.randn(8, 6)


def reward() -> torch.Tensor:
    return torch.randn(8)


def continued(model: nn.Module, _: nn.Module) -> torch.Tensor:
    target = reward() + 0.9 * model(state()).max(1).values
    return F.smooth_l1_loss(model(state())[:, 0], target)


def of_a_critic(model: nn.Module, _: nn.Module) -> torch.Tensor:
    done = torch.zeros(8)
    advantage = reward() + 0.9 * model(state())[:, 0] * (1 - done) - model(state())[:, 0]
    return 0.5 * advantage.pow(2).mean()


def of_several_steps(model: nn.Module, _: nn.Module) -> torch.Tensor:
    values = torch.stack([model(state())[:, 0] for _ in range(4)])
    target, targets = model(state())[:, 0], []
    for _ in range(4):
        target = reward() + 0.9 * target * torch.ones(8)
        targets.insert(0, target)
    return (torch.stack(targets) - values).pow(2).mean()


def of_joined_steps(model: nn.Module, _: nn.Module) -> torch.Tensor:
    target = reward() + 0.9 * model(state())[:, 0]
    return F.smooth_l1_loss(model(state())[:, 0].repeat(2), torch.cat([target, target]))


def target_network(model: nn.Module, other: nn.Module) -> torch.Tensor:
    target = reward() + 0.9 * other(state()).max(1).values
    return F.mse_loss(model(state())[:, 0], target)


def teacher(model: nn.Module, other: nn.Module) -> torch.Tensor:
    x = state()
    return F.kl_div(model(x).log_softmax(1), other(x).softmax(1), reduction="batchmean")


def without_gradient(model: nn.Module, _: nn.Module) -> torch.Tensor:
    with torch.no_grad():
        target = reward() + 0.9 * model(state()).max(1).values
    return F.mse_loss(model(state())[:, 0], target)


def two_views(model: nn.Module, _: nn.Module) -> torch.Tensor:
    return F.mse_loss(model(state()), model(state()))


def features(model: nn.Module, other: nn.Module) -> torch.Tensor:
    x = state()
    rebuilt = F.pad(model(x), (0, 3))
    return F.mse_loss(other(rebuilt), other(x))


def regression(model: nn.Module, _: nn.Module) -> torch.Tensor:
    return (model(state()) - torch.randn(8, 3)).square().mean()


@pytest.mark.parametrize("step", [continued, of_a_critic, of_several_steps, of_joined_steps])
def test_a_continued_target_with_a_gradient_is_trained(step: Step) -> None:
    assert found(step) == [(5, 5, 0)]


@pytest.mark.parametrize("step", [target_network, teacher])
def test_a_target_of_another_network_that_nothing_steps_is_idle(step: Step) -> None:
    assert found(step) == [(5, 0, 5)]


@pytest.mark.parametrize("step", [without_gradient, two_views, features, regression])
def test_other_losses_have_no_such_target(step: Step) -> None:
    assert found(step) == []


@pytest.mark.parametrize("detached", [False, True])
@pytest.mark.parametrize("negated_first", [False, True])
def test_an_advantage_with_a_gradient_is_told(detached: bool, negated_first: bool) -> None:
    torch.manual_seed(0)
    policy, values = nn.Linear(6, 3), nn.Linear(6, 1)
    with watched() as seen:
        optimizer = sgd(nn.ModuleList([policy, values]))
        for _ in range(STEPS):
            x = state()
            actions = torch.distributions.Categorical(logits=policy(x))
            log_prob, value = actions.log_prob(actions.sample()), values(x)[:, 0]
            advantage = reward() - (value.detach() if detached else value)
            gain = -log_prob * advantage if negated_first else -(log_prob * advantage)
            optimizer.zero_grad()
            (gain.mean() + F.mse_loss(value, reward())).backward()
            optimizer.step()
        assert seen.failed() == []
        every = [one for one in seen.observed(TrainedTarget) if isinstance(one, TrainedTarget)]
    assert [one.advantages for one in every] == ([] if detached else [5])


def test_a_scaled_difference_in_a_flow_is_no_advantage() -> None:
    torch.manual_seed(0)
    scale, shift = nn.Linear(6, 6), nn.Linear(6, 6)
    with watched() as seen:
        optimizer = sgd(nn.ModuleList([scale, shift]))
        for _ in range(STEPS):
            h = torch.tanh(scale(state()))
            z = (h - shift(h)) * torch.exp(-h)  # a coupling layer
            optimizer.zero_grad()
            (z.square().mean() + h.mean()).backward()
            optimizer.step()
        assert seen.failed() == []
        assert seen.observed(TrainedTarget) == []
