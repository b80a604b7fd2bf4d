from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from tests.adapters.torch.watched import sgd, watched
from torch import nn
from torch.nn import functional

from mothtrap.core.facts.pairs import OwnRowCompetes

Tensor = torch.Tensor
N = 6
MASK = torch.eye(2 * N, dtype=torch.bool)
PARTNERS = torch.arange(2 * N).roll(N)


def observed(loss_of: Callable[[Tensor], Tensor], *, normalized: bool = True) -> list[int]:
    """Train on pairs of views; return how often rows competed with themselves."""
    torch.manual_seed(0)
    model = nn.Linear(5, 4)
    optimizer = sgd(model)
    with watched() as seen:
        for _ in range(12):
            rows = torch.randn(N, 5)
            z = model(torch.cat([rows, rows + 0.1 * torch.randn(N, 5)]))
            optimizer.zero_grad()
            loss_of(functional.normalize(z, dim=1) if normalized else z).backward()
            optimizer.step()
        assert seen.failed() == []
    return [one.found for one in seen.observed(OwnRowCompetes)]


def exponentials(z: Tensor) -> tuple[Tensor, Tensor]:
    powers = (z @ z.T / 0.5).exp()
    return powers, powers[torch.arange(2 * N), PARTNERS]


def written_by_hand(z: Tensor) -> Tensor:
    powers, near = exponentials(z)
    return -(near / powers.sum(1)).log().mean()


def with_logsumexp(z: Tensor) -> Tensor:
    similarity = z @ z.T / 0.5
    near = similarity[torch.arange(2 * N), PARTNERS]
    return (similarity.logsumexp(1) - near).mean()


@pytest.mark.parametrize(
    "loss_of",
    [
        lambda z: functional.cross_entropy(z @ z.T / 0.5, PARTNERS),
        written_by_hand,
        with_logsumexp,
    ],
    ids=["cross entropy", "by hand", "logsumexp"],
)
def test_a_diagonal_without_a_mask(loss_of: Callable[[Tensor], Tensor]) -> None:
    assert observed(loss_of) == [5]


def subtracted(z: Tensor) -> Tensor:
    powers, near = exponentials(z)
    return -(near / (powers.sum(1) - powers.diagonal())).log().mean()


def multiplied(z: Tensor) -> Tensor:
    powers, near = exponentials(z)
    return -(near / (powers * ~MASK).sum(1)).log().mean()


@pytest.mark.parametrize(
    "loss_of",
    [
        lambda z: functional.cross_entropy((z @ z.T).masked_fill(MASK, -1e9), PARTNERS),
        lambda z: functional.cross_entropy((z @ z.T).masked_fill(MASK, -torch.inf), PARTNERS),
        lambda z: functional.cross_entropy(z[:N] @ z[N:].T, torch.arange(N)),
        lambda z: functional.cross_entropy(z[:, :3], PARTNERS % 3),
        subtracted,
        multiplied,
    ],
    ids=["-1e9", "-inf", "two sets", "classes", "subtracted", "multiplied"],
)
def test_losses_without_own_rows(loss_of: Callable[[Tensor], Tensor]) -> None:
    assert observed(loss_of) == []
