from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from tests.adapters.torch.watched import watched
from torch import nn
from torch.nn import functional

from mothtrap.adapters.torch.losses import opponents
from mothtrap.core.facts.loss_terms import AgreeingLosses
from mothtrap.core.facts.policies import PolicyLoss

FULL = pytest.mark.full
Tensor = torch.Tensor
Loss = Callable[[Tensor, bool], Tensor]


def probability(scores: Tensor, real: bool) -> Tensor:
    target = torch.full_like(scores, float(real))
    return functional.binary_cross_entropy(torch.sigmoid(scores), target)


def logits(scores: Tensor, real: bool) -> Tensor:
    target = torch.full_like(scores, 0.9 if real else 0.1)
    return functional.binary_cross_entropy_with_logits(scores, target)


def noisy(scores: Tensor, real: bool) -> Tensor:
    target = torch.rand_like(scores) * 0.3 + (0.8 if real else 0.0)
    return functional.binary_cross_entropy_with_logits(scores, target)


def squares(scores: Tensor, real: bool) -> Tensor:
    return functional.mse_loss(scores, torch.full_like(scores, float(real)))


def logarithm(scores: Tensor, real: bool) -> Tensor:
    answer = torch.sigmoid(scores)
    return -torch.log(answer if real else 1 - answer).mean()


def critic(scores: Tensor, real: bool) -> Tensor:
    return -scores.mean() if real else scores.mean()


def hinge(scores: Tensor, real: bool) -> Tensor:
    return functional.relu(1 - scores if real else 1 + scores).mean()


def smooth(scores: Tensor, real: bool) -> Tensor:
    return functional.softplus(-scores if real else scores).mean()


LOSSES = [probability, logits, noisy, squares, logarithm, critic, hinge, smooth]


class Game:
    """A generator and a discriminator with an optimizer each."""

    def __init__(self) -> None:
        torch.manual_seed(0)
        self.generator = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 6))
        self.judge = nn.Sequential(nn.Linear(6, 16), nn.LeakyReLU(), nn.Linear(16, 1))
        self.of_generator = torch.optim.Adam(self.generator.parameters(), lr=1e-3)
        self.of_judge = torch.optim.Adam(self.judge.parameters(), lr=1e-3)

    def make(self) -> Tensor:
        return self.generator(torch.randn(8, 4))  # type: ignore[no-any-return]

    def train_generator(self, loss: Tensor) -> None:
        self.of_generator.zero_grad()
        loss.backward()
        self.of_generator.step()

    def train_judge(self, *losses: Tensor) -> None:
        self.of_judge.zero_grad()
        for loss in losses:
            loss.backward()
        self.of_judge.step()


def generator_first(game: Game, loss_of: Loss, *, goal: bool, fake: bool = False) -> None:
    made, real = game.make(), torch.randn(8, 6)
    game.train_generator(loss_of(game.judge(made), goal))
    on_real = loss_of(game.judge(real), not fake)
    on_made = loss_of(game.judge(made.detach()), fake)
    game.train_judge((on_real + on_made) / 2)


def judge_first(game: Game, loss_of: Loss, *, goal: bool, fake: bool = False) -> None:
    on_real = loss_of(game.judge(torch.randn(8, 6)), not fake)
    made = game.make()
    game.train_judge(on_real, loss_of(game.judge(made.detach()), fake))
    game.train_generator(loss_of(game.judge(made), goal))


def with_graph(game: Game, loss_of: Loss, *, goal: bool, fake: bool = False) -> None:
    on_real = loss_of(game.judge(torch.randn(8, 6)), not fake)
    game.train_judge(on_real + loss_of(game.judge(game.make()), fake))
    game.train_generator(loss_of(game.judge(game.make()), goal))


def several_steps(game: Game, loss_of: Loss, *, goal: bool, fake: bool = False) -> None:
    for _ in range(3):
        on_real = loss_of(game.judge(torch.randn(8, 6)), not fake)
        game.train_judge(on_real, loss_of(game.judge(game.make().detach()), fake))
    game.train_generator(loss_of(game.judge(game.make()), goal))


LOOPS = [generator_first, judge_first, with_graph, several_steps]
Loop = Callable[..., None]
GAMES = [
    pytest.param(loop, loss_of, marks=[] if loop is LOOPS[0] or loss_of is LOSSES[0] else FULL)
    for loop in LOOPS
    for loss_of in LOSSES
]
"""Each loss in one loop, and each loop with one loss; with `HARNESS=full` each in each."""


def agreements(step: Callable[[Game], None], steps: int = 14) -> list[AgreeingLosses]:
    with watched() as seen:
        game = Game()
        for _ in range(steps):
            step(game)
    return [one for one in seen.observed(AgreeingLosses) if isinstance(one, AgreeingLosses)]


@pytest.mark.parametrize(("loop", "loss_of"), GAMES[: 2 * len(LOSSES)])
def test_a_generator_with_the_goal_of_its_opponent_is_told(loop: Loop, loss_of: Loss) -> None:
    [one] = agreements(lambda game: loop(game, loss_of, goal=False))
    assert (one.label, one.looks, one.unused) == (0, 8, False)


@pytest.mark.parametrize("loop", [with_graph, several_steps])
def test_the_order_of_the_steps_does_not_matter(loop: Loop) -> None:
    assert len(agreements(lambda game: loop(game, probability, goal=False))) == 1


@pytest.mark.parametrize(("loop", "loss_of"), GAMES)
def test_opposed_goals_are_a_game(loop: Loop, loss_of: Loss) -> None:
    assert agreements(lambda game: loop(game, loss_of, goal=True)) == []


@pytest.mark.parametrize("loop", LOOPS)
def test_flipped_labels_are_a_game(loop: Loop) -> None:
    assert agreements(lambda game: loop(game, probability, goal=False, fake=True)) == []


def test_a_discriminator_that_calls_everything_real_is_told() -> None:
    def step(game: Game) -> None:
        made = game.make()
        game.train_generator(probability(game.judge(made), True))
        on_made = probability(game.judge(made.detach()), True)
        game.train_judge(probability(game.judge(torch.randn(8, 6)), True) + on_made)

    [one] = agreements(step)
    assert one.label == 1


def test_differences_of_scores_are_a_game() -> None:
    def step(game: Game) -> None:
        made, real = game.make(), torch.randn(8, 6)
        game.train_judge(logits(game.judge(real) - game.judge(made.detach()), True))
        game.train_generator(logits(game.judge(made) - game.judge(real), True))

    assert agreements(step) == []


def test_two_optimizers_of_one_loss_are_no_game() -> None:
    def step(game: Game) -> None:
        game.of_generator.zero_grad()
        game.train_judge(probability(game.judge(game.make()), False))
        game.of_generator.step()

    assert agreements(step) == []


def test_labels_that_vary_are_no_game() -> None:
    turns = iter(range(1000))

    def step(game: Game) -> None:
        real = next(turns) % 2 == 0
        game.train_judge(probability(game.judge(game.make()), real))
        game.train_generator(probability(game.judge(game.make()), real))

    assert agreements(step, 20) == []


@pytest.mark.parametrize(("goal", "facts"), [(False, 1), (True, 0)])
def test_examples_may_be_described_by_numbers(goal: bool, facts: int) -> None:
    def described(data: Tensor) -> Tensor:
        return torch.cat([data.mean(1, keepdim=True), data[:, :5].pow(2)], 1)

    def step(game: Game) -> None:
        game.of_judge.zero_grad()
        probability(game.judge(described(torch.randn(8, 6))), True).backward()
        probability(game.judge(described(game.make().detach())), False).backward()
        game.of_judge.step()
        game.train_generator(probability(game.judge(described(game.make())), goal))

    assert len(agreements(step)) == facts


class Control:
    """A policy and the value of its actions, each with an optimizer, as in DDPG."""

    def __init__(self) -> None:
        torch.manual_seed(0)
        self.policy = nn.Sequential(nn.Linear(3, 16), nn.ReLU(), nn.Linear(16, 2), nn.Tanh())
        self.value = nn.Sequential(nn.Linear(5, 16), nn.ReLU(), nn.Linear(16, 1))
        self.of_policy = torch.optim.Adam(self.policy.parameters(), lr=1e-3)
        self.of_value = torch.optim.Adam(self.value.parameters(), lr=1e-3)

    def q(self, state: Tensor, action: Tensor) -> Tensor:
        return self.value(torch.cat([state, action], 1))  # type: ignore[no-any-return]

    def learn_values(self, error: Callable[[Tensor, Tensor], Tensor]) -> None:
        state, action = torch.randn(8, 3), torch.rand(8, 2)
        self.of_value.zero_grad()
        error(self.q(state, action), 0.01 * torch.randn(8, 1)).backward()
        self.of_value.step()

    def improve(self, sign: float) -> None:
        state = torch.randn(8, 3)
        value = self.q(state, self.policy(state))
        loss = value.mean() if sign > 0 else -value.mean()
        self.of_policy.zero_grad()
        loss.backward()
        self.of_policy.step()


@pytest.mark.parametrize("error", [functional.mse_loss, functional.smooth_l1_loss])
@pytest.mark.parametrize(("sign", "rewards", "facts"), [(1, True, 1), (-1, True, 0), (1, False, 0)])
def test_a_policy_that_lowers_its_value_is_told(
    monkeypatch: pytest.MonkeyPatch,
    error: Callable[[Tensor, Tensor], Tensor],
    sign: float,
    rewards: bool,
    facts: int,
) -> None:
    monkeypatch.setattr(opponents, "maximizes_rewards", lambda files, _: rewards and bool(files))
    with watched() as seen:
        control = Control()
        for _ in range(20):
            control.learn_values(error)
            control.improve(sign)
    found = [one for one in seen.observed(PolicyLoss) if isinstance(one, PolicyLoss)]
    assert [(one.by_value, one.added, one.looks) for one in found] == [(True, 8, 8)] * facts
