from __future__ import annotations

import pytest
import torch
from tests.adapters.torch.watched import sgd, watched
from torch import nn
from torch.nn import functional

from mothtrap.core.facts.layers import MaskOfOnes

ONES = torch.ones(6, 6).tril()
BARRED = torch.zeros(6, 6).masked_fill(ONES == 0, -torch.inf)


class Fused(nn.Module):
    def __init__(self, mask: torch.Tensor) -> None:
        super().__init__()
        self.mask, self.project = mask, nn.Linear(8, 24)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = (part[:, None] for part in self.project(x).chunk(3, -1))
        return functional.scaled_dot_product_attention(q, k, v, attn_mask=self.mask)


class Module(nn.Module):
    def __init__(self, mask: torch.Tensor) -> None:
        super().__init__()
        self.mask, self.attention = mask, nn.MultiheadAttention(8, 2, batch_first=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.attention(x, x, x, attn_mask=self.mask)[0]


class Encoder(nn.Module):
    def __init__(self, mask: torch.Tensor) -> None:
        super().__init__()
        self.mask = mask
        self.layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layer(x, src_mask=self.mask)


def told(model: nn.Module, steps: int = 3) -> list[MaskOfOnes]:
    optimizer = sgd(model)
    with watched() as seen:
        for _ in range(steps):
            optimizer.zero_grad()
            model(torch.randn(2, 6, 8)).square().mean().backward()
            optimizer.step()
        optimizer.zero_grad()
        model(torch.randn(2, 6, 8)).square().mean().backward()
        optimizer.step()
    return [one for one in seen.observed(MaskOfOnes) if isinstance(one, MaskOfOnes)]


@pytest.mark.parametrize("kind", [Fused, Module, Encoder])
def test_a_mask_of_zeros_and_ones_is_reported_once(kind: type[nn.Module]) -> None:
    found = told(kind(ONES))
    assert found
    assert {one.shape[-2:] for one in found} == {(6, 6)}
    assert len({(one.module, one.location) for one in found}) == len(found)


@pytest.mark.parametrize("kind", [Fused, Module, Encoder])
@pytest.mark.parametrize("mask", [BARRED, torch.zeros(6, 6)], ids=["barred", "zeros"])
def test_other_masks_are_not(kind: type[nn.Module], mask: torch.Tensor) -> None:
    assert told(kind(mask)) == []


def test_a_boolean_mask_is_not() -> None:
    assert told(Fused(ONES.bool())) == []
