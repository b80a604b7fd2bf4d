"""Attention found in the graph of a loss."""

from __future__ import annotations

import math

import pytest
import torch
from tests.adapters.torch.watched import Seen, sgd, watched
from torch import nn
from torch.nn import functional as F  # noqa: N812
from torch.utils.checkpoint import checkpoint

from mothtrap.core.facts.layers import AttentionLook

LENGTH, HEADS, WIDTH = 24, 2, 8


class Attention(nn.Module):
    """Self-attention with two heads, fused or written out, causal or not."""

    def __init__(self, *, fused: bool, causal: bool = False, masked: bool = False) -> None:
        super().__init__()
        self.projection = nn.Linear(WIDTH, 3 * HEADS * WIDTH)
        self.dropout = nn.Dropout(0.1)
        self.fused, self.causal, self.masked = fused, causal, masked

    def parts(self, x: torch.Tensor) -> list[torch.Tensor]:
        rows = self.projection(x).reshape(*x.shape[:2], 3, HEADS, WIDTH)
        return [part.squeeze(2).transpose(1, 2) for part in rows.split(1, dim=2)]

    def weights(self, x: torch.Tensor) -> torch.Tensor:
        q, k, _ = self.parts(x)
        scores = q @ k.transpose(-1, -2) / WIDTH**0.5
        if self.causal or self.masked:
            scores = scores.masked_fill(torch.ones_like(scores).triu(1).bool(), -math.inf)
        return scores.softmax(-1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if not self.fused:
            return self.dropout(self.weights(x)) @ self.parts(x)[2]
        mask = torch.ones(LENGTH, LENGTH).tril().bool() if self.masked else None
        return F.scaled_dot_product_attention(*self.parts(x), attn_mask=mask, is_causal=self.causal)


def train(model: nn.Module, x: torch.Tensor, steps: int = 1) -> list[AttentionLook]:
    with watched() as seen:
        optimizer = sgd(model, rate=0.0)
        for _ in range(steps):
            model(x).square().sum().backward()
            optimizer.step()
    return looks(seen)


def looks(seen: Seen) -> list[AttentionLook]:
    assert seen.failed() == []
    return seen.observed(AttentionLook)


@pytest.mark.parametrize("fused", [False, True])
@pytest.mark.parametrize("shape", ["full", "causal", "masked"])
def test_entropies_are_those_of_the_weights(fused: bool, shape: str) -> None:
    model = Attention(fused=fused, causal=shape == "causal", masked=shape == "masked")
    x = 3 * torch.randn(4, LENGTH, WIDTH)
    [look] = train(model, x)
    weights = model.weights(x).detach()
    choices = torch.full((LENGTH,), LENGTH) if shape == "full" else torch.arange(1, LENGTH + 1)
    kept = choices >= 8
    relative = -torch.xlogy(weights, weights).sum(-1) / choices.log()
    expected = relative[:, :, kept].mean(dim=(0, 2))
    assert (look.heads, look.keys, look.number, look.of) == (HEADS, LENGTH, 0, 1)
    assert look.entropies == pytest.approx(expected.tolist(), rel=1e-3)


def test_the_largest_score_is_known_where_queries_and_keys_are_kept() -> None:
    model, x = Attention(fused=True), torch.randn(4, LENGTH, WIDTH)
    [look] = train(model, x)
    q, k, _ = model.parts(x)
    largest = (q @ k.transpose(-1, -2) / WIDTH**0.5).detach().abs().max()
    assert look.largest_logit == pytest.approx(float(largest), rel=1e-4)
    written = Attention(fused=False)
    [look] = train(written, x)
    q, k, _ = written.parts(x)
    largest = (q @ k.transpose(-1, -2) / WIDTH**0.5).detach().abs().max()
    assert look.largest_logit == pytest.approx(float(largest), rel=1e-4)


def test_operations_go_in_order_of_execution() -> None:
    class Two(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = Attention(fused=True), Attention(fused=True)
            nn.init.zeros_(self.second.projection.weight)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.second(self.first(x).mean(dim=1))

    first, second = train(Two(), 5 * torch.randn(2, LENGTH, WIDTH))
    assert (first.number, second.number) == (0, 1)
    assert second.entropies == pytest.approx([1.0, 1.0])
    assert max(first.entropies) < 0.99


def test_a_softmax_over_classes_is_no_attention() -> None:
    model = nn.Sequential(nn.Linear(WIDTH, 12), nn.Softmax(dim=-1))
    assert train(model, torch.randn(4, LENGTH, WIDTH)) == []


def test_multi_head_attention_is_seen_either_way() -> None:
    class Block(nn.Module):
        def __init__(self, need_weights: bool) -> None:
            super().__init__()
            self.attention = nn.MultiheadAttention(WIDTH, HEADS, batch_first=True)
            self.need_weights = need_weights

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.attention(x, x, x, need_weights=self.need_weights)[0]

    for need_weights in (True, False):
        [look] = train(Block(need_weights), torch.randn(4, LENGTH, WIDTH))
        assert all(0.5 < entropy <= 1 for entropy in look.entropies)


def test_what_checkpointing_has_packed_is_not_read() -> None:
    class Checkpointed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.attention, self.forwards = Attention(fused=True), 0

        def run(self, x: torch.Tensor) -> torch.Tensor:
            self.forwards += 1
            return self.attention(x)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return checkpoint(self.run, x, use_reentrant=False)

    model = Checkpointed()
    assert train(model, torch.randn(4, LENGTH, WIDTH)) == []
    assert model.forwards == 2


def test_looks_become_rare_and_are_one_a_step() -> None:
    found = train(Attention(fused=True), torch.randn(2, LENGTH, WIDTH), steps=35)
    assert [look.step for look in found] == [*range(11), 20, 30]


SCALINGS = {
    "divided": (lambda q, k: q @ k.transpose(-1, -2) / WIDTH**0.5, WIDTH**-0.5),
    "divided by a tensor": (
        lambda q, k: q @ k.transpose(-1, -2) / torch.tensor(float(WIDTH)).sqrt(),
        WIDTH**-0.5,
    ),
    "before the product": (lambda q, k: (q * WIDTH**-0.5) @ k.transpose(-1, -2), WIDTH**-0.5),
    "not at all": (lambda q, k: q @ k.transpose(-1, -2), 1.0),
    "multiplied": (lambda q, k: q @ k.transpose(-1, -2) * WIDTH**0.5, WIDTH**0.5),
    "einsum": (lambda q, k: 0.5 * torch.einsum("bhid,bhjd->bhij", q, k), 0.5),
    "masked with a bias": (
        lambda q, k: (3 * (q @ k.transpose(-1, -2)) + torch.ones(LENGTH)).masked_fill(
            torch.ones(LENGTH, LENGTH).triu(1).bool(), -1e9
        ),
        3.0,
    ),
}


@pytest.mark.parametrize("way", SCALINGS)
def test_the_scale_of_scores_is_read_from_the_graph(way: str) -> None:
    scores, scale = SCALINGS[way]

    class Scaled(Attention):
        def weights(self, x: torch.Tensor) -> torch.Tensor:
            return scores(*self.parts(x)[:2]).softmax(-1)

    model, x = Scaled(fused=False), 4 * torch.randn(4, LENGTH, WIDTH)
    [look] = train(model, x)
    assert (look.width, look.scale) == (WIDTH, pytest.approx(scale, rel=1e-5))
    if way.startswith("masked"):
        return
    weights = model.weights(x).detach()
    assert look.top_weight == pytest.approx(float(weights.amax(-1).mean()), rel=1e-4)
    q, k, _ = model.parts(x)
    scaled = (q @ k.transpose(-1, -2) / WIDTH**0.5).softmax(-1).detach()
    assert look.scaled_top_weight == pytest.approx(float(scaled.amax(-1).mean()), rel=1e-4)


def test_the_scale_of_an_encoder_layer_with_dropout_is_the_usual_one() -> None:
    layer = nn.TransformerEncoderLayer(16, HEADS, 32, dropout=0.1, batch_first=True)
    for look in train(layer, torch.randn(4, LENGTH, 16)):
        assert (look.width, look.scale) == (WIDTH, pytest.approx(WIDTH**-0.5, rel=1e-5))


def test_the_scale_of_a_fused_attention_is_its_own() -> None:
    class Fused(Attention):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return F.scaled_dot_product_attention(*self.parts(x), scale=2.0)

    [look] = train(Fused(fused=True), torch.randn(4, LENGTH, WIDTH))
    assert (look.scale, look.width) == (2.0, WIDTH)
    assert look.top_weight > look.scaled_top_weight
