from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from tests.adapters.torch.watched import sgd, watched
from torch import nn

from mothtrap.core.facts.pairs import OneSidedPairs, ScoresSummed

Tensor = torch.Tensor
Loss = Callable[[Tensor, Tensor, Tensor], Tensor]


def found(loss_of: Loss) -> list[tuple[bool, int]]:
    """Return whether pairs are pulled together, and the number of terms."""
    vectors = nn.Embedding(30, 4)
    with watched() as seen:
        optimizer = sgd(vectors)
        for _ in range(14):
            word, near, far = (vectors(torch.randint(0, 30, (8,))) for _ in range(3))
            optimizer.zero_grad()
            loss_of(word, near, far).backward()
            optimizer.step()
        assert seen.failed() == []
        told = [one for one in seen.observed(OneSidedPairs) if isinstance(one, OneSidedPairs)]
    assert all("test_pair_scores.py" in (one.location or "") for one in told)
    return [(one.together, one.terms) for one in told]


def product(one: Tensor, other: Tensor) -> Tensor:
    return (one * other).sum(-1)


def matrix_product(one: Tensor, other: Tensor) -> Tensor:
    return torch.bmm(one.unsqueeze(1), other.unsqueeze(2)).squeeze()


@pytest.mark.parametrize("score", [product, matrix_product])
def test_pairs_that_are_only_pulled_together_are_told(
    score: Callable[[Tensor, Tensor], Tensor],
) -> None:
    def loss_of(word: Tensor, near: Tensor, far: Tensor) -> Tensor:
        pulled = score(near, word).sigmoid().log().mean()
        return -(pulled + F.logsigmoid(score(far, word)).mean())

    assert found(loss_of) == [(True, 2)]


def test_pairs_that_are_only_pushed_apart_are_told() -> None:
    def loss_of(word: Tensor, near: Tensor, far: Tensor) -> Tensor:
        pushed = F.logsigmoid(-product(word, near)).mean()
        return -pushed - F.logsigmoid(product(-word, far)).mean()

    assert found(loss_of) == [(False, 2)]


@pytest.mark.parametrize(
    "loss_of",
    [
        lambda word, near, far: (
            -(F.logsigmoid(product(word, near)).mean() + F.logsigmoid(-product(word, far)).mean())
        ),
        lambda word, near, far: (
            -(
                matrix_product(near, word).sigmoid().log()
                + matrix_product(far.neg(), word).sigmoid().log()
            ).mean()
        ),
        lambda word, near, far: (
            -product(word, near).sigmoid().log().mean()
            - (1 - product(word, far).sigmoid()).log().mean()
        ),
        lambda word, near, far: (
            -F.logsigmoid(product(word, near) - product(word, far)).mean()
            - F.logsigmoid(product(word, near)).mean()
        ),
        lambda word, near, far: (
            F.logsigmoid(product(word, far)).mean() - F.logsigmoid(product(word, near)).mean()
        ),
        lambda word, near, far: -F.logsigmoid(product(word, near)).mean() + 0 * far.sum(),
    ],
    ids=["negated", "a negated vector", "one minus", "a difference", "subtracted", "one term"],
)
def test_losses_with_both_sides_are_fine(loss_of: Loss) -> None:
    assert found(loss_of) == []


def summed(loss_of: Loss) -> list[tuple[int, int]]:
    """Return the looks at summed scores of a word with 5 others, and the number of scores."""
    vectors = nn.Embedding(30, 4)
    with watched() as seen:
        optimizer = sgd(vectors)
        for _ in range(14):
            word, near, far = (vectors(torch.randint(0, 30, (8, many))) for many in (1, 1, 5))
            optimizer.zero_grad()
            loss_of(word, near, far).backward()
            optimizer.step()
        assert seen.failed() == []
        return [(one.found, one.scores) for one in seen.observed(ScoresSummed)]


def scores(word: Tensor, others: Tensor) -> Tensor:
    return others.bmm(word.transpose(1, 2)).squeeze(2)


def test_scores_that_are_summed_before_a_log_sigmoid() -> None:
    def loss_of(word: Tensor, near: Tensor, far: Tensor) -> Tensor:
        apart = F.logsigmoid(scores(word, -far).sum(1).view(-1, 1))
        return -(F.logsigmoid(scores(word, near)) + apart).mean()

    def by_hand(word: Tensor, near: Tensor, far: Tensor) -> Tensor:
        apart = torch.sigmoid(-scores(word, far).sum(1)).log()
        return -(torch.sigmoid(scores(word, near)).log().mean() + apart.mean())

    assert summed(loss_of) == [(5, 5)]
    assert summed(by_hand) == [(5, 5)]


def test_log_sigmoids_that_are_summed() -> None:
    def loss_of(word: Tensor, near: Tensor, far: Tensor) -> Tensor:
        apart = F.logsigmoid(-scores(word, far)).sum(1, keepdim=True)
        return -(F.logsigmoid(scores(word, near)) + apart).mean()

    def of_products(word: Tensor, near: Tensor, far: Tensor) -> Tensor:
        apart = F.logsigmoid(-(word * far).sum(-1))
        return -(F.logsigmoid((word * near).sum(-1)).mean() + apart.mean())

    def all_of_them(word: Tensor, near: Tensor, far: Tensor) -> Tensor:
        together = F.logsigmoid(scores(near, far).sum(1))
        return -(together + F.logsigmoid(-scores(word, far).sum(1))).mean()

    assert summed(loss_of) == summed(of_products) == summed(all_of_them) == []
