from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from tests.adapters.torch.watched import sgd, watched
from torch import nn

from mothtrap.core.facts.pairs import SimilarityLoss

Tensor = torch.Tensor
Loss = Callable[[Tensor, Tensor], Tensor]
STEPS = 14


def counts(loss: Loss, *, same_network: bool = True) -> list[tuple[int, int, int]]:
    """Return the inspections of a loss of two views, and those with both sides and one side."""
    torch.manual_seed(0)
    encoder, other = nn.Linear(6, 4), nn.Linear(6, 4)
    with watched() as seen:
        optimizer = sgd(nn.ModuleList([encoder, other]))
        for _ in range(STEPS):
            x = torch.randn(8, 6)
            first, second = x + 0.1 * torch.randn(8, 6), x + 0.1 * torch.randn(8, 6)
            optimizer.zero_grad()
            loss(encoder(first), (encoder if same_network else other)(second)).backward()
            optimizer.step()
        assert seen.failed() == []
        every = [one for one in seen.observed(SimilarityLoss) if isinstance(one, SimilarityLoss)]
    return [(one.looks, one.both, one.one) for one in every]


def cosine(p: Tensor, z: Tensor) -> Tensor:
    return -F.cosine_similarity(p, z, dim=-1).mean()


def both_ways(p: Tensor, z: Tensor) -> Tensor:
    similar = nn.CosineSimilarity(dim=1)
    return -(similar(p, z).mean() + similar(z, p).mean()) * 0.5


def normalized(p: Tensor, z: Tensor) -> Tensor:
    return (2 - 2 * (F.normalize(p, dim=1) * F.normalize(z, dim=1)).sum(dim=-1)).mean()


def scaled(p: Tensor, z: Tensor) -> Tensor:
    return -F.cosine_similarity(p, z).sum() / 8


def squared(p: Tensor, z: Tensor) -> Tensor:
    return F.mse_loss(F.normalize(p, dim=1), F.normalize(z, dim=1))


@pytest.mark.parametrize("loss", [cosine, both_ways, normalized, scaled, squared])
def test_both_sides_of_a_similarity(loss: Loss) -> None:
    assert counts(loss) == [(5, 5, 0)]
    assert counts(lambda p, z: cosine(p, z.detach())) == [(5, 0, 5)]
    assert counts(loss, same_network=False) == [(5, 0, 5)]


def with_other_rows(p: Tensor, z: Tensor) -> Tensor:
    scores = F.normalize(p, dim=1) @ F.normalize(z, dim=1).T
    return F.cross_entropy(scores / 0.1, torch.arange(8))


def with_variance(p: Tensor, z: Tensor) -> Tensor:
    return squared(p, z) + torch.relu(1 - p.std(dim=0)).mean()


def with_labels(p: Tensor, z: Tensor) -> Tensor:
    return (torch.randn(8).sign() * F.cosine_similarity(p, z)).mean()


def of_a_margin(p: Tensor, z: Tensor) -> Tensor:
    return F.cosine_embedding_loss(p, z, torch.randn(8).sign())


def to_a_score(p: Tensor, z: Tensor) -> Tensor:
    return F.mse_loss(F.cosine_similarity(p, z), torch.rand(8))


def of_soft_labels(p: Tensor, z: Tensor) -> Tensor:
    return F.cross_entropy(p, z.softmax(1))


@pytest.mark.parametrize(
    "loss", [of_soft_labels, with_other_rows, with_variance, with_labels, of_a_margin, to_a_score]
)
def test_losses_with_other_terms_are_left_out(loss: Loss) -> None:
    assert counts(loss) == []
