"""Scripts that maximize the rewards of an environment."""

from __future__ import annotations

from pathlib import Path

import pytest

from mothtrap.tracing.source.environments import maximizes_rewards

STEP = "state, reward, done, info = env.step(action)\n"


def found(tmp_path: Path, *texts: str) -> bool:
    files = [tmp_path / f"{place}.py" for place in range(len(texts))]
    for file, text in zip(files, texts, strict=True):
        file.write_text(text)
    return maximizes_rewards(map(str, files))


@pytest.mark.parametrize(
    "text",
    [
        "loss = (log_prob * returns).mean()",
        "loss = (-log_prob * returns).mean()",
        "loss = -(log_prob * returns).mean()",
        "returns = returns - returns.mean()\nadvantage = returns - value",
        "critic = (value - returns).pow(2).mean() + (value - returns) ** 2",
        "reward = reward - abs(angle)\nreward = -1",
        "optimizer.step()\nx = -y",
    ],
)
def test_an_environment_whose_rewards_keep_their_sign(tmp_path: Path, text: str) -> None:
    assert found(tmp_path, STEP + text)
    assert found(tmp_path, STEP, text)


@pytest.mark.parametrize(
    "text",
    [
        "costs.append(-reward)",
        "reward = -env_reward",
        "advantage = value - returns",
        "g = -returns",
        "weight = -(returns - returns.mean())",
        "returns = -1 * returns",
        "returns *= -1.0",
        "weight = torch.neg(advantage)",
        "weight = advantage.neg()",
    ],
)
def test_rewards_that_are_subtracted(tmp_path: Path, text: str) -> None:
    assert not found(tmp_path, STEP + text)
    assert not found(tmp_path, STEP, text)


@pytest.mark.parametrize("text", ["R = r + 0.9 * R", "total = total * gamma + rewards[step]"])
def test_rewards_that_are_discounted(tmp_path: Path, text: str) -> None:
    assert found(tmp_path, text)
    assert not found(tmp_path, text, "reward = -cost")


def test_another_file_of_the_script_subtracts_rewards(tmp_path: Path) -> None:
    losses = tmp_path / "losses.py"
    losses.write_text("loss = (log_prob * -advantages).mean()")
    script = tmp_path / "script.py"
    script.write_text(STEP)
    assert maximizes_rewards([str(script)])
    assert not maximizes_rewards([str(script)], [str(losses)])
    assert not maximizes_rewards([], [str(script)])


@pytest.mark.parametrize(
    "text", ["state, cost, done, info = env.step(action)", "total = cost + gamma * total"]
)
def test_costs_are_minimized(tmp_path: Path, text: str) -> None:
    assert not found(tmp_path, text)


def test_a_moving_average_discounts_no_rewards(tmp_path: Path) -> None:
    assert not found(tmp_path, "mean = 0.05 * loss + 0.95 * mean")


@pytest.mark.parametrize(
    "text", ["length = tour.step(action)", "loss, count = trainer.step(batch)", "def f(:", ""]
)
def test_no_environment(tmp_path: Path, text: str) -> None:
    assert not found(tmp_path, text)
