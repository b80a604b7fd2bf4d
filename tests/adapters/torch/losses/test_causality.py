"""Checks, with real layers, the node names by which attention and its masks are recognized."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn import functional

from mothtrap.adapters.torch.losses.causality import looks_ahead

T = 6
Tensor = torch.Tensor
MASK = nn.Transformer.generate_square_subsequent_mask(T)


def hidden() -> Tensor:
    return torch.randn(2, T, 8, requires_grad=True)


def ahead(output: Tensor, *modules: nn.Module) -> str:
    return looks_ahead(output.grad_fn, modules, T)


@pytest.mark.parametrize("need_weights", [True, False])
@pytest.mark.parametrize("mask", [None, MASK, MASK == 0])
def test_masks_of_multi_head_attention(mask: Tensor | None, need_weights: bool) -> None:
    layer, x = nn.MultiheadAttention(8, 2, batch_first=True), hidden()
    out = layer(x, x, x, attn_mask=mask, need_weights=need_weights)[0]
    assert ahead(out) == ("attention" if mask is None else "causal")


@pytest.mark.parametrize("dropout", [0.0, 0.1])
@pytest.mark.parametrize("mask", [None, MASK])
def test_masks_of_encoder_layers(mask: Tensor | None, dropout: float) -> None:
    layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=dropout, batch_first=True)
    out = nn.TransformerEncoder(layer, 2)(hidden(), mask=mask)
    assert ahead(out) == ("attention" if mask is None else "causal")


@pytest.mark.parametrize(
    ("options", "found"),
    [({}, "attention"), ({"is_causal": True}, "causal"), ({"attn_mask": MASK}, "causal")],
)
def test_masks_of_the_fused_operation(options: dict[str, object], found: str) -> None:
    q = torch.randn(2, 2, T, 4, requires_grad=True)
    assert ahead(functional.scaled_dot_product_attention(q, q, q, **options)) == found


def by_hand(x: Tensor, mask: str) -> Tensor:
    scores = x @ x.transpose(1, 2) / 3
    if mask == "fill":
        scores = scores.masked_fill(torch.ones(T, T).triu(1).bool(), float("-inf"))
    elif mask == "add":
        scores = scores + MASK
    elif mask == "where":
        scores = torch.where(torch.ones(T, T).tril().bool(), scores, -1e9)
    return scores.softmax(-1) @ x


@pytest.mark.parametrize("mask", ["fill", "add", "where"])
def test_masks_by_hand(mask: str) -> None:
    assert ahead(by_hand(hidden(), mask)) == "causal"


def test_attention_by_hand_without_a_mask() -> None:
    assert ahead(by_hand(hidden(), "none")) == "attention"


def test_one_masked_layer_may_be_a_decoder_over_an_encoder() -> None:
    assert ahead(by_hand(by_hand(hidden(), "none"), "add")) == ""


def test_attention_over_other_positions_is_none_of_the_sequence() -> None:
    x = torch.randn(2, T + 3, 8, requires_grad=True)
    assert ahead((x @ x.transpose(1, 2)).softmax(-1) @ x) == ""
    assert ahead(functional.scaled_dot_product_attention(x, x, x)) == ""


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.RNN])
def test_recurrent_layers_that_run_both_ways(kind: type[nn.RNNBase]) -> None:
    one, both = kind(8, 4, batch_first=True), kind(8, 4, batch_first=True, bidirectional=True)
    assert ahead(both(hidden())[0], both) == "recurrent"
    assert ahead(one(hidden())[0], one, one) == "causal"
    assert ahead(both(hidden())[0], both, one) == ""
    assert ahead(one(hidden())[0], one, kind(8, 4)) == ""


def test_a_feed_forward_network_looks_nowhere() -> None:
    layer = nn.Linear(8, 8)
    assert ahead(layer(hidden()), layer) == ""
