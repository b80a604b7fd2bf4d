from __future__ import annotations

import pytest
import torch
from tests.adapters.torch.watched import sgd, watched
from torch import nn
from torch.nn import functional

from mothtrap.core.facts.layers import PaddingWeights

Tensor = torch.Tensor
PAD = 0
LENGTHS, PADDED = (3, 5, 6, 4), 8
"""Lengths of the rows of a batch without and with padding."""


class Net(nn.Module):
    """Attention of the kind `kind`, with a mask made by `mask_of`, and perhaps a first vector."""

    def __init__(self, kind: str, mask: str, *, first: bool = False) -> None:
        super().__init__()
        self.kind, self.mask = kind, mask
        self.embed = nn.Embedding(20, 8)
        self.first = nn.Parameter(torch.randn(1, 1, 8)) if first else None
        self.attend = nn.MultiheadAttention(8, 2, batch_first=True)
        self.encoder = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.1, batch_first=True)
        self.head = nn.Linear(8, 2)

    def forward(self, tokens: Tensor) -> Tensor:
        x, shows = self.embed(tokens), tokens != PAD
        if self.first is not None:
            x = torch.cat([self.first.expand(len(x), -1, -1), x], 1)
            shows = torch.cat([shows.new_ones(len(x), 1), shows], 1)
        if self.mask == "inverted":
            shows = ~shows
        if self.kind == "module":
            out, _ = self.attend(x, x, x, key_padding_mask=~shows, need_weights=False)
        elif self.kind == "encoder":
            out = self.encoder(x, src_key_padding_mask=~shows)
        elif self.kind == "function":
            out = functional.scaled_dot_product_attention(
                *(x[:, None],) * 3, attn_mask=shows[:, None, None]
            ).squeeze(1)
        else:
            axes = shows[:, :, None] if self.mask == "query" else shows[:, None, :]
            scores = x @ x.transpose(1, 2)
            if self.mask != "none":
                scores = scores.masked_fill(~axes, -1e9)
            out = scores.softmax(-1) @ x
        found: Tensor = self.head(out[:, 0])
        return found


def observed(net: Net, *, padded: int = PADDED) -> list[tuple[int, int, int]]:
    optimizer = sgd(net)
    with watched() as seen:
        for _ in range(12):
            tokens = torch.randint(1, 20, (len(LENGTHS), padded))
            for row, length in zip(tokens, LENGTHS, strict=True):
                row[length:] = PAD
            optimizer.zero_grad()
            functional.cross_entropy(net(tokens), tokens[:, 0] % 2).backward()
            optimizer.step()
        assert seen.failed() == []
    facts = seen.observed(PaddingWeights)
    return [(one.rows, one.inverted, one.by_query) for one in facts]


@pytest.mark.parametrize("kind", ["by hand", "module", "encoder", "function"])
@pytest.mark.parametrize("first", [False, True], ids=["tokens", "first vector"])
def test_masks_that_hide_the_words(kind: str, *, first: bool) -> None:
    torch.manual_seed(0)
    [(rows, inverted, _)] = observed(Net(kind, "inverted", first=first))
    assert rows == inverted >= 20


@pytest.mark.parametrize("kind", ["by hand", "module", "encoder", "function"])
def test_masks_that_hide_the_padding(kind: str) -> None:
    torch.manual_seed(0)
    assert {found[1:] for found in observed(Net(kind, "right"))} <= {(0, 0)}


def test_a_mask_along_the_queries() -> None:
    torch.manual_seed(0)
    assert observed(Net("by hand", "query")) == [(20, 0, 20)]


def test_attention_without_a_mask() -> None:
    torch.manual_seed(0)
    assert observed(Net("by hand", "none")) == [(20, 0, 0)]


def test_sequences_without_padding() -> None:
    torch.manual_seed(0)
    assert observed(Net("by hand", "right"), padded=3) == []
