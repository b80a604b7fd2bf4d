"""Layers of every kind are watched: healthy ones are not named, a later fault is."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import nn
from torch.nn import functional
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from mothtrap.adapters.torch.origin.operations import (
    Localized,
    OperationObserver,
)

ROWS = 5
BAD_ROW = 3


def encoder() -> tuple[nn.Module, tuple[torch.Tensor, ...]]:
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, dropout=0.1)
    return nn.TransformerEncoder(layer, 2, enable_nested_tensor=False), (torch.randn(ROWS, 6, 8),)


class Masked(nn.Module):
    """Attention with a mask of -inf and a padding mask."""

    def __init__(self) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        future = nn.Transformer.generate_square_subsequent_mask(x.shape[1])
        padding = torch.zeros(x.shape[:2]).masked_fill(torch.arange(6) > 3, float("-inf"))
        return self.attention(x, x, x, attn_mask=future, key_padding_mask=padding)[0]


class Fused(nn.Module):
    """The fused attention kernel."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv = nn.Linear(8, 24)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = self.qkv(x).chunk(3, dim=-1)
        return functional.scaled_dot_product_attention(q, k, v, is_causal=True)


class Packed(nn.Module):
    """A recurrent net over packed sequences."""

    def __init__(self) -> None:
        super().__init__()
        self.rnn = nn.LSTM(8, 8, num_layers=2, batch_first=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        lengths = torch.tensor([6, 5, 4, 3, 2])
        packed, _ = self.rnn(pack_padded_sequence(x, lengths, batch_first=True))
        return pad_packed_sequence(packed, batch_first=True)[0]


class InPlace(nn.Module):
    """Writes to buffers part by part."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(8))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        room = torch.full_like(x, float("nan"))
        for place in range(x.shape[1]):
            room[:, place] = x[:, place] * self.weight
        return room.add_(0).view(ROWS, -1)


def layers(*parts: nn.Module) -> nn.Module:
    return nn.Sequential(*parts)


def words() -> tuple[nn.Module, tuple[torch.Tensor, ...]]:
    return nn.EmbeddingBag(10, 8, sparse=True), (torch.randint(0, 10, (ROWS, 4)),)


LAYERS: dict[str, Callable[[], tuple[nn.Module, tuple[torch.Tensor, ...]]]] = {
    "encoder": encoder,
    "masked attention": lambda: (Masked(), (torch.randn(ROWS, 6, 8),)),
    "fused attention": lambda: (Fused(), (torch.randn(ROWS, 6, 8),)),
    "packed": lambda: (Packed(), (torch.randn(ROWS, 6, 8),)),
    "gru": lambda: (nn.GRUCell(8, 8), (torch.randn(ROWS, 8),)),
    "in place": lambda: (InPlace(), (torch.randn(ROWS, 6, 8),)),
    "convolution": lambda: (
        layers(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.MaxPool2d(2), nn.Flatten()),
        (torch.randn(ROWS, 3, 8, 8),),
    ),
    "norms": lambda: (
        layers(nn.Linear(8, 8), nn.LayerNorm(8), nn.GroupNorm(2, 8), nn.Dropout(0.5)),
        (torch.randn(ROWS, 8),),
    ),
    "constant feature": lambda: (
        layers(nn.BatchNorm1d(8), nn.Linear(8, 2)),
        (torch.ones(ROWS, 8),),
    ),
    "words": words,
}


def watched(model: nn.Module, loss: Callable[[], torch.Tensor], **options) -> Localized | None:
    with OperationObserver(**options) as watch:
        loss().backward()
        return watch.explain({name: p.grad for name, p in model.named_parameters()})


@pytest.mark.parametrize("kind", LAYERS)
def test_layers_in_order_are_not_named(kind: str) -> None:
    torch.manual_seed(0)
    model, given = LAYERS[kind]()
    assert watched(model, lambda: model(*given).square().mean()) is None


@pytest.mark.parametrize("kind", LAYERS)
def test_what_goes_wrong_behind_layers_is_named(kind: str) -> None:
    torch.manual_seed(0)
    model, given = LAYERS[kind]()

    def loss() -> torch.Tensor:
        rows = model(*given).flatten(1).square().mean(1)
        return torch.log(rows * (torch.arange(ROWS) != BAD_ROW)).mean()

    found = watched(model, loss)
    assert found is not None
    assert (found.operation, found.rows) == ("torch.log", (BAD_ROW,))


@pytest.mark.parametrize("kind", [kind for kind in LAYERS if kind not in ("words", "in place")])
def test_a_row_that_came_in_bad_is_named_before_layers(kind: str) -> None:
    torch.manual_seed(0)
    model, (given, *_) = LAYERS[kind]()
    given[BAD_ROW].view(-1)[0] = float("nan")
    found = watched(model, lambda: model(given).square().mean())
    assert found is not None
    assert (found.operation, found.rows) == (None, (BAD_ROW,))
    assert (found.holder or "").startswith("argument ")


def test_a_norm_without_its_epsilon_is_named() -> None:
    model = layers(nn.BatchNorm1d(2, eps=1e-90), nn.Linear(2, 1))
    x = torch.tensor([[1.0, 2.0], [1.0, 3.0]])
    found = watched(model, lambda: model(x).sum())
    assert found is not None
    assert (found.operation, found.module) == ("torch.nn.functional.batch_norm", "0")


def test_a_loss_that_overflows_by_its_scale_is_named() -> None:
    model = nn.Linear(2, 1)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**16)

    def loss() -> torch.Tensor:
        with torch.autocast("cpu", dtype=torch.float16):
            return scaler.scale(model(torch.ones(3, 2)).abs().amax() + 10)

    found = watched(model, loss)
    assert found is not None
    assert (found.operation, found.module) == ("backward of conversion to torch.float16", None)
