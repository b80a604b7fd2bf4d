from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from tests.adapters.torch.watched import sgd, watched
from torch import nn
from torch.nn import functional

from mothtrap.core.facts.losses import MixedAxes

Tensor = torch.Tensor


def observed(loss_of: Callable[[Tensor, Tensor], Tensor]) -> list[MixedAxes]:
    """Train a recurrence that returns (time, batch, classes) for targets (batch, time)."""
    model = nn.GRU(3, 5)
    optimizer = sgd(model)
    with watched() as seen:
        for _ in range(12):
            optimizer.zero_grad()
            loss_of(model(torch.randn(9, 4, 3))[0], torch.randint(0, 5, (4, 9))).backward()
            optimizer.step()
    return seen.observed(MixedAxes)


def test_a_swapping_view_before_the_loss_is_told() -> None:
    [one] = observed(lambda y, t: functional.cross_entropy(y.view(4, 9, 5).mT, t))
    assert (one.given, one.became, one.looks, one.mixed) == ((9, 4, 5), (4, 9, 5), 5, 5)
    assert "test_mixed_axes.py" in (one.location or "")


def test_targets_flattened_in_another_order_are_told() -> None:
    [one] = observed(lambda y, t: functional.cross_entropy(y.view(-1, 5), t.view(-1)))
    assert (one.given, one.became, one.targets) == ((9, 4, 5), (4, 9), True)


@pytest.mark.parametrize("fused", [False, True])
@pytest.mark.parametrize("moves", [False, True])
def test_as_many_heads_as_positions(fused: bool, moves: bool) -> None:
    def loss_of(y: Tensor, _: Tensor) -> Tensor:
        heads = y.transpose(0, 1).repeat(1, 1, 2).view(4, 9, 2, 5)[:, :2].transpose(1, 2)
        if fused:
            heads = functional.scaled_dot_product_attention(heads, heads, heads)
        else:
            heads = (heads @ heads.mT).softmax(-1) @ heads
        if moves:
            heads = heads.transpose(1, 2)
        return heads.contiguous().view(4, 2, 10).square().mean()

    assert [(one.given, one.became) for one in observed(loss_of)] == (
        [] if moves else [((4, 2, 2, 5), (4, 2, 10))]
    )


@pytest.mark.parametrize(
    "loss_of",
    [
        lambda y, t: functional.cross_entropy(y.reshape(-1, 5), t.t().reshape(-1)),
        lambda y, t: functional.cross_entropy(y.transpose(0, 1).reshape(-1, 5), t.view(-1)),
        lambda y, t: functional.cross_entropy(y.permute(1, 2, 0), t),
    ],
)
def test_the_same_order_is_not_told(loss_of: Callable[[Tensor, Tensor], Tensor]) -> None:
    assert observed(loss_of) == []


def shifted(x: Tensor, padded: bool) -> Tensor:
    """Shift relative positions as Transformer-XL (with padding) and XLNet do; shape (9, 4, 5)."""
    if padded:
        x = torch.cat([x.new_zeros(9, 1, 5), x], 1)  # (9, 5, 5)
        return x.view(5, 9, 5)[1:].view(9, 4, 5)
    return x.reshape(4, 9, 5)[1:].reshape(9, 3, 5)


@pytest.mark.parametrize("padded", [False, True])
def test_a_shift_of_relative_positions_is_not_told(padded: bool) -> None:
    assert observed(lambda y, _: shifted(y, padded).square().mean()) == []
