"""Attention whose softmax runs over the batch or the heads."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from tests.adapters.torch.watched import sgd, watched
from torch import nn
from torch.nn import functional

from mothtrap.core.facts.layers import AttentionAxis

Tensor = torch.Tensor
Attend = Callable[[Tensor, Tensor], Tensor]


def observed(attend: Attend, *, heads: bool = False) -> list[tuple[tuple[int, ...], int]]:
    """Train with scores of shape (4, 6) and values of (4, 6, 3), or with two heads."""
    size = (4, 2, 6) if heads else (4, 6)
    layer, scorer = nn.Linear(3, 3), nn.Linear(3, 6 if heads else 1)
    with watched() as seen:
        optimizer = sgd(nn.ModuleList([layer, scorer]))
        for _ in range(4):
            values = layer(torch.randn(*size, 3))
            output = attend(scorer(values).squeeze(-1), values)
            functional.mse_loss(output, torch.ones_like(output)).backward()
            optimizer.step()
            optimizer.zero_grad()
        assert seen.failed() == []
        return [(one.shape, one.axis) for one in seen.observed(AttentionAxis)]


def by_matrices(scores: Tensor, values: Tensor, dim: int) -> Tensor:
    return torch.bmm(scores.softmax(dim).unsqueeze(1), values)


def by_columns(scores: Tensor, values: Tensor, dim: int) -> Tensor:
    return torch.bmm(values.transpose(1, 2), scores.softmax(dim).unsqueeze(2))


def by_sums(scores: Tensor, values: Tensor, dim: int) -> Tensor:
    return (scores.softmax(dim).unsqueeze(-1) * values).sum(1)


@pytest.mark.parametrize("attend", [by_matrices, by_columns, by_sums])
def test_a_softmax_over_the_rows_is_told(
    attend: Callable[[Tensor, Tensor, int], Tensor],
) -> None:
    assert observed(lambda scores, values: attend(scores, values, 0)) == [((4, 6), 0)] * 2
    assert observed(lambda scores, values: attend(scores, values, 1)) == []


@pytest.mark.parametrize(("dim", "found"), [(0, [((1, 6), 0)] * 2), (1, [])])
def test_a_batch_of_one_row(dim: int, found: list[tuple[tuple[int, ...], int]]) -> None:
    def attend(scores: Tensor, values: Tensor) -> Tensor:
        return torch.bmm(scores[:1].softmax(dim).unsqueeze(1), values[:1])

    assert observed(attend) == found


@pytest.mark.parametrize(("dim", "axis"), [(0, 0), (1, 1), (-4, 0), (-1, None), (3, None)])
def test_heads(dim: int, axis: int | None) -> None:
    found = observed(lambda scores, values: scores.softmax(dim) @ values, heads=True)
    assert found == ([] if axis is None else [((4, 2, 6, 6), axis)] * 2)


def test_class_probabilities_of_pixels_are_no_attention() -> None:
    def dice(_: Tensor, pixels: Tensor) -> Tensor:
        return (pixels.softmax(1) * torch.rand(4, 2, 6, 3)).sum(dim=(2, 3))

    assert observed(dice, heads=True) == []


@pytest.mark.parametrize(
    "attend",
    [
        lambda scores, values: (scores.softmax(0).unsqueeze(-1) * values).sum(0),  # of experts
        lambda scores, values: torch.bmm(scores.t().softmax(0).t().unsqueeze(1), values),
        lambda scores, values: scores.softmax(0),
    ],
)
def test_stays_quiet(attend: Attend) -> None:
    assert observed(attend) == []


def test_classes_of_pixels_that_gather_centers_are_no_heads() -> None:
    def centers(_: Tensor, pixels: Tensor) -> Tensor:
        chances = pixels.softmax(1).flatten(2)
        return torch.bmm(chances, pixels.flatten(2).transpose(1, 2))

    assert observed(centers, heads=True) == []


def test_capsules_before_the_batch_are_no_rows() -> None:
    """The routing weights of a capsule network sum to 1 over the next capsules."""

    def route(_: Tensor, values: Tensor) -> Tensor:
        votes = values.transpose(0, 1)  # (2 capsules, 4 rows, 6, 3)
        weights = votes.mean(-1, keepdim=True).softmax(0)
        return (weights * votes).sum(2).transpose(0, 1)

    assert observed(route, heads=True) == []
