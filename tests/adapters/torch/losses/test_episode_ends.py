from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from tests.adapters.torch.watched import sgd, watched
from torch import nn

from mothtrap.core.facts.policies import UnreadEnds
from mothtrap.tracing.describe import episode_ends
from mothtrap.tracing.source import environments

GAMMA = 0.9


def ignoring(model: nn.Module, reward: torch.Tensor, done: torch.Tensor) -> torch.Tensor:
    with torch.no_grad():
        target = reward + GAMMA * model(torch.randn(8, 4))[:, 0]
    return F.mse_loss(model(torch.randn(8, 4))[:, 0], target)


@pytest.mark.parametrize("mine", [True, False])
def test_the_source_is_read_once(mine: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not mine:
        monkeypatch.setattr(environments.frames, "is_users", lambda _: False)
    model = nn.Linear(4, 1)
    with watched() as seen:
        optimizer = sgd(model)
        for _ in range(6):
            optimizer.zero_grad()
            ignoring(model, torch.randn(8), torch.zeros(8)).backward()
            optimizer.step()
        assert seen.failed() == []
    found = [one for one in seen.observed(UnreadEnds) if isinstance(one, UnreadEnds)]
    assert [one.name for one in found] == ["done"] * mine
    assert all("test_episode_ends.py" in (one.location or "") for one in found)


def inverting(model: nn.Module, done: torch.Tensor) -> torch.Tensor:
    target = torch.randn(8) * done.float()
    return F.mse_loss(model(torch.randn(8, 4))[:, 0], target)


@pytest.mark.parametrize(
    ("ends", "inverted"), [([0, 1] + 6 * [0], True), ([1, 0] + 6 * [1], False)]
)
def test_ends_that_are_rare_must_not_be_a_factor(
    ends: list[int], inverted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(episode_ends, "unread_ends", lambda _: None)
    monkeypatch.setattr(episode_ends, "multiplied_ends", lambda _: ("done", "agent.py:7"))
    model = nn.Linear(4, 1)
    with watched() as seen:
        optimizer = sgd(model)
        done = torch.tensor(ends)
        for _ in range(4):
            optimizer.zero_grad()
            inverting(model, done).backward()
            optimizer.step()
    found = [one for one in seen.observed(UnreadEnds) if isinstance(one, UnreadEnds)]
    assert [(one.name, one.inverted) for one in found] == [("done", True)] * inverted
