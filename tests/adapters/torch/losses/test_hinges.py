"""Hand-written losses with a margin: their margin, and their value for equal distances."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from tests.adapters.torch.watched import sgd, watched
from torch import nn

from mothtrap.adapters.torch.losses.hinges import hinge
from mothtrap.core.facts.pairs import MarginLoss

Rows = torch.Tensor
ROWS = 12


def groups() -> tuple[Rows, Rows, Rows]:
    first, second, third = torch.randn(3, ROWS, 4, requires_grad=True)
    return first, second, third


TRIPLETS: dict[str, Callable[[Rows, Rows, Rows], Rows]] = {
    "norm": lambda a, p, n: F.relu((a - p).norm(dim=1) - (a - n).norm(dim=1) + 0.5).mean(),
    "squares": lambda a, p, n: torch.clamp(
        (a - p).pow(2).sum(1) - (a - n).pow(2).sum(1) + 0.5, min=0
    ).mean(),
    "distance": lambda a, p, n: torch.relu(
        0.5 + F.pairwise_distance(a, p) - F.pairwise_distance(a, n)
    ).sum(),
}


@pytest.mark.parametrize("name", TRIPLETS)
def test_the_margin_of_a_triplet_loss_is_found(name: str) -> None:
    rows = groups()
    found = hinge(TRIPLETS[name](*rows).grad_fn)
    assert found is not None
    assert (found.margin, found.level) == (pytest.approx(0.5, abs=1e-4),) * 2
    value = TRIPLETS[name](*rows).item() / (ROWS if name == "distance" else 1)
    assert found.value == pytest.approx(value, abs=1e-4)


def contrastive(a: Rows, b: Rows, labels: Rows) -> Rows:
    distance = F.pairwise_distance(a, b)
    far = torch.clamp(2.0 - distance, min=0.0)
    return (labels * distance.pow(2) + (1 - labels) * far.pow(2)).mean()


def by_squares(a: Rows, b: Rows, labels: Rows) -> Rows:
    squares = (b - a).pow(2).sum(1)
    far = F.relu(2.0 - (squares + 1e-9).sqrt()).pow(2)
    return (labels.float() * squares + (1 + -1 * labels).float() * far).mean()


@pytest.mark.parametrize("form", [contrastive, by_squares])
def test_the_level_of_a_contrastive_loss_is_that_of_equal_distances(
    form: Callable[[Rows, Rows, Rows], Rows],
) -> None:
    labels = (torch.arange(ROWS) < 3).float()
    a, b, _ = groups()
    loss = form(0.1 * a, 0.1 * b, labels)
    found = hinge(loss.grad_fn)
    assert found is not None
    assert found.margin == pytest.approx(2.0, abs=1e-4)
    assert found.level == pytest.approx(4 * 0.25 * 0.75, rel=0.01)
    assert found.value == pytest.approx(loss.item(), rel=1e-4)


@pytest.mark.parametrize(
    "loss",
    [
        lambda a, b, _: F.relu(a).mean(),
        lambda a, b, _: F.relu((a - b).norm(dim=1) - 1).mean(),  # one-sided penalty
        lambda a, b, c: (F.relu(a - b) - F.relu(b - c)).mean(),
        lambda a, b, _: F.mse_loss(F.relu(a), b.detach()),
        lambda a, b, _: ((a - b).norm(dim=1) - 1).square().mean(),
    ],
)
def test_other_losses_have_no_hinge(loss: Callable[[Rows, Rows, Rows], Rows]) -> None:
    assert hinge(loss(*groups()).grad_fn) is None


def test_hinges_are_reported_like_other_losses_with_a_margin() -> None:
    model = nn.Linear(4, 3)
    with watched() as seen:
        optimizer = sgd(model, 0.001)
        for _ in range(201):
            optimizer.zero_grad()
            TRIPLETS["norm"](*model(torch.randn(3, ROWS, 4))).backward()
            optimizer.step()
        assert seen.failed() == []
        [one] = seen.observed(MarginLoss)
    assert isinstance(one, MarginLoss)
    assert (one.loss, one.calls, len(one.values)) == ("the loss", 200, 25)
    assert one.level == pytest.approx(0.5, abs=1e-4)
