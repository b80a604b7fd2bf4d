from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from tests.adapters.torch.watched import sgd, watched
from torch import nn

from mothtrap.core.facts.loss_terms import ShareAdded

Tensor = torch.Tensor


def observed(loss_of: Callable[[Tensor], Tensor]) -> list[int]:
    """Train on scores of 6 rows; return how often a log-probability was added."""
    model = nn.Linear(5, 4)
    optimizer = sgd(model)
    with watched() as seen:
        for _ in range(12):
            optimizer.zero_grad()
            loss_of(model(torch.randn(6, 5))).backward()
            optimizer.step()
        assert seen.failed() == []
    return [one.added for one in seen.observed(ShareAdded)]


def share(z: Tensor) -> Tensor:
    powers = z.exp()
    return powers[:, 0] / powers.sum(1)


@pytest.mark.parametrize(
    "loss_of",
    [
        lambda z: share(z).log().mean(),
        lambda z: 0.5 * (share(z) + 1e-8).log().sum() / 6,
        lambda z: -(-share(z).log()).mean(),
        lambda z: (z[:4].exp().diagonal() / z[:4].exp().sum(1)).log().mean(),
    ],
    ids=["added", "scaled", "twice negated", "diagonal"],
)
def test_an_added_log_probability(loss_of: Callable[[Tensor], Tensor]) -> None:
    assert observed(loss_of) == [5]


@pytest.mark.parametrize(
    "loss_of",
    [
        lambda z: -share(z).log().mean(),
        lambda z: (share(z) * share(z).log()).mean(),
        lambda z: (1 - share(z)).log().mean(),
        lambda z: share(z).log().mean() - 2 * share(-z).log().mean(),
        lambda z: (z[:, 0].exp() / (1 + z[:, 0].square())).log().mean(),
    ],
    ids=["subtracted", "entropy", "of the rest", "both signs", "no softmax"],
)
def test_other_logarithms(loss_of: Callable[[Tensor], Tensor]) -> None:
    assert observed(loss_of) == []
