"""Values of losses with a margin."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from tests.adapters.torch.watched import sgd, watched
from torch import nn

from mothtrap.core.fact import Fact
from mothtrap.core.facts.evaluations import EqualViews
from mothtrap.core.facts.losses import LossCall
from mothtrap.core.facts.pairs import MarginLoss


class OwnTripletLoss(nn.Module):
    def __init__(self, margin: float) -> None:
        super().__init__()
        self.margin = margin

    def forward(self, a: torch.Tensor, p: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
        near, far = (a - p).square().sum(1), (a - n).square().sum(1)
        return torch.relu(near - far + self.margin).mean()


def found(loss: nn.Module, steps: int) -> list[MarginLoss]:
    model = nn.Linear(4, 3)
    with watched() as seen:
        optimizer = sgd(model, 0.001)
        for _ in range(steps):
            rows = model(torch.randn(3, 6, 4))
            value = loss(rows[0], rows[1], rows[2])
            optimizer.zero_grad()
            (value + 0.1 * rows.square().mean()).backward()
            optimizer.step()
        assert seen.failed() == []
        return [one for one in seen.observed(MarginLoss) if isinstance(one, MarginLoss)]


def test_every_eighth_value_of_a_loss_with_a_margin_is_reported() -> None:
    names = {nn.TripletMarginLoss(0.5): "triplet_margin_loss", OwnTripletLoss(0.5): ""}
    for loss, name in names.items():
        [one] = [one for one in found(loss, 201) if one.loss != "the loss"]  # read from its graph
        assert (one.loss, one.margin, one.calls) == (name or "OwnTripletLoss", 0.5, 200)
        assert len(one.values) == 25
        assert (one.level, one.equal) == (0.5, 0)
        assert "test_margins.py" in (one.location or "")


def test_a_triplet_loss_without_a_margin_is_read_from_its_graph() -> None:
    [one] = found(OwnTripletLoss(0.0), 201)
    assert (one.loss, one.margin, one.calls, one.level) == ("the loss", 0.0, 200, 0.0)


Rows = torch.Tensor


def observed(
    loss_of: Callable[[Rows, Rows, Rows], Rows], kind: type[Fact], *, steps: int = 10
) -> list[Fact]:
    """Return the facts of a training with a function of three groups of embeddings."""
    model = nn.Linear(4, 3)
    with watched() as seen:
        optimizer = sgd(model, 0.001)
        for _ in range(steps):
            rows = model(torch.randn(3, 6, 4))
            optimizer.zero_grad()
            (loss_of(*rows) + 0.1 * rows.square().mean()).backward()
            optimizer.step()
        assert seen.failed() == []
        return seen.observed(kind)


HALF = torch.tensor([1.0, 1.0, 1.0, 0.0, 0.0, 0.0])


def test_an_anchor_that_equals_its_positive_is_reported() -> None:
    def alike(a: Rows, _: Rows, n: Rows) -> Rows:
        return F.triplet_margin_loss(a, a.clone(), n)

    [one] = observed(alike, EqualViews)
    assert (one.loss, one.steps) == ("triplet_margin_loss", 8)
    assert observed(lambda a, p, n: F.triplet_margin_loss(a, p, n), EqualViews) == []


def test_labels_of_zero_and_one_are_reported() -> None:
    def of(labels: Rows, *, scores: bool) -> list[LossCall]:
        def value(a: Rows, b: Rows, _: Rows) -> Rows:
            if scores:
                return F.margin_ranking_loss(a[:, 0], b[:, 0], labels)
            return F.cosine_embedding_loss(a, b, labels)

        name = "margin_ranking_loss" if scores else "cosine_embedding_loss"
        calls = [one for one in observed(value, LossCall) if isinstance(one, LossCall)]
        return [one for one in calls if one.operation == name]

    for scores in (False, True):
        [one] = of(HALF, scores=scores)
        assert one.targets is not None
        assert (one.targets.least, one.targets.greatest) == (0, 1)
        assert of(2 * HALF - 1, scores=scores) == of(torch.ones(6), scores=scores) == []


def test_pairs_have_the_level_of_equal_distances() -> None:
    labels = torch.tensor([1.0, 1.0, -1.0, -1.0, -1.0, -1.0])

    def value(a: Rows, b: Rows, _: Rows) -> Rows:
        return F.cosine_embedding_loss(a, b, labels, margin=0.2)

    [one] = observed(value, MarginLoss, steps=201)
    assert one.level == pytest.approx(2 / 6 * 0.8)


def test_equal_embeddings_are_counted() -> None:
    def value(a: Rows, p: Rows, n: Rows) -> Rows:
        return F.triplet_margin_loss(*(1.0 + 1e-6 * one for one in (a, p, n)), reduction="sum")

    [one] = observed(value, MarginLoss, steps=201)
    assert one.equal == 25
    assert one.values[0] == pytest.approx(1.0, abs=1e-3)
