"""Shape errors: what each layer or operation requires, and what may have been intended."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from tests.adapters.torch.explaining.raising import explained, unexplained
from torch import nn
from torch.nn import functional

randn = torch.randn
LAYERS: dict[str, tuple[Callable[[], object], str, str]] = {
    "linear": (
        lambda: nn.Linear(128, 10)(randn(32, 64)),
        "shape (32, 64): its last axis must be 128, but is 64",
        "change the layer to nn.Linear(64, 10), or give it an input of size 128",
    ),
    "linear not flattened": (
        lambda: nn.Linear(64, 10)(randn(5, 4, 4, 4)),
        "its last axis must be 64, but is 4",
        "flatten it first: x.flatten(1)",
    ),
    "linear without a batch": (
        lambda: nn.Linear(64, 10)(randn(4, 4, 4)),
        "its last axis must be 64, but is 4",
        "it is one sample without the batch axis: x.flatten()[None]",
    ),
    "linear transposed": (
        lambda: nn.Linear(8, 10)(randn(8, 5)),
        "its last axis must be 8, but is 5",
        "its axis 0 has size 8: x.transpose(0, -1) if the axes are swapped",
    ),
    "convolution": (
        lambda: nn.Conv2d(3, 16, 3)(randn(4, 1, 28, 28)),
        "its axis 1 (channels) must be 3, but is 1",
        "change the layer to nn.Conv2d(1, ...), or give it 3 channels",
    ),
    "convolution of one series": (
        lambda: nn.Conv1d(3, 16, 3)(randn(5, 28)),
        "its axis 0 (channels) must be 3, but is 5",
        "change the layer to nn.Conv1d(5, ...)",
    ),
    "transposed convolution": (
        lambda: nn.ConvTranspose2d(3, 16, 3)(randn(4, 1, 8, 8)),
        "its axis 1 (channels) must be 3, but is 1",
        "change the layer to nn.ConvTranspose2d(1, ...)",
    ),
    "convolution without a channel": (
        lambda: nn.Conv2d(1, 16, 3)(randn(28, 28)),
        "it needs 4 axes (rows, 1 channels, 2 spatial axes), but this has 2",
        "",
    ),
    "convolution of nothing": (
        lambda: nn.Conv2d(3, 16, 5)(randn(4, 3, 2, 2)),
        "its kernel (5, 5) is larger than its input (2, 2)",
        "earlier layers shrink the input too much",
    ),
    "batch normalization": (
        lambda: nn.BatchNorm1d(8)(randn(4, 6)),
        "its axis 1 (channels) must be 8, but is 6",
        "change the layer to nn.BatchNorm1d with 6 channels, or give it 8 channels",
    ),
    "axes of batch normalization": (
        lambda: nn.BatchNorm2d(8)(randn(4, 8)),
        "it needs 4 axes, but this has 2",
        "",
    ),
    "group normalization": (
        lambda: nn.GroupNorm(2, 8)(randn(8, 6)),
        "its axis 1 (channels) must be 8, but is 6",
        "its axis 0 has size 8: x.transpose(0, 1)",
    ),
    "layer normalization": (
        lambda: nn.LayerNorm(8)(randn(4, 6)),
        "nn.LayerNorm((8,))",
        "change the layer to nn.LayerNorm(6), or give it an input of size 8",
    ),
    "recurrent": (
        lambda: nn.LSTM(8, 4)(randn(3, 2, 6)),
        "its last axis must be 8, but is 6",
        "change the layer to nn.LSTM(6, 4), or give it an input of size 8",
    ),
    "axes of a recurrent network": (
        lambda: nn.GRU(8, 4)(randn(3, 2, 8, 8)),
        "it needs 2 or 3 axes, but this has 4",
        "",
    ),
    "attention": (
        lambda: nn.MultiheadAttention(8, 2)(randn(3, 2, 6), randn(3, 2, 6), randn(3, 2, 6)),
        "got query of shape (3, 2, 6): its last axis must be 8, but is 6",
        "change the layer to nn.MultiheadAttention(6, ...), or give it an input of size 8",
    ),
    "pooling": (
        lambda: nn.MaxPool2d(2)(randn(4, 3, 1, 1)),
        "Output size is too small",
        "",
    ),
}


@pytest.mark.parametrize("name", LAYERS)
def test_a_layer_says_what_it_needs(name: str) -> None:
    act, needs, fix = LAYERS[name]
    found = explained(act)
    assert (found.kind, found.step) == ("shape", 3)
    assert needs in found.sentence
    assert "test_shapes.py:" in found.sentence
    assert fix in next(iter(found.fixes), "")
    assert found.module is not None


labels = torch.zeros(4, dtype=torch.long)
LOSSES: dict[str, tuple[Callable[[], object], str, str]] = {
    "rows": (
        lambda: functional.cross_entropy(randn(8, 3), labels),
        "they have 8 and 4 rows",
        "look for an earlier view or reshape",
    ),
    "an axis too many": (
        lambda: functional.cross_entropy(randn(4, 3), labels[:, None]),
        "it needs one label per row",
        "target.squeeze(1)",
    ),
    "classes on the last axis": (
        lambda: functional.cross_entropy(randn(4, 7, 3), torch.zeros(4, 7, dtype=torch.long)),
        "the classes must be in axis 1, but here they are in the last axis (3)",
        "pred.transpose(1, -1)",
    ),
    "other classes": (
        lambda: functional.cross_entropy(randn(4, 3), torch.zeros(4, 5)),
        "it needs (4,) class numbers, or (4, 3) probabilities",
        "the target has 5 classes, the model 3",
    ),
    "a module": (
        lambda: nn.CrossEntropyLoss()(randn(8, 3), labels),
        "they have 8 and 4 rows",
        "",
    ),
    "binary": (
        lambda: functional.binary_cross_entropy_with_logits(randn(4, 1), torch.zeros(4)),
        "predictions of shape (4, 1) and targets of shape (4,): they must be the same",
        "pred.squeeze(-1), or target[..., None]",
    ),
    "binary the other way": (
        lambda: functional.binary_cross_entropy(torch.sigmoid(randn(4)), torch.zeros(4, 1)),
        "they must be the same",
        "target.squeeze(-1)",
    ),
    "squares of other rows": (
        lambda: functional.mse_loss(randn(6, 1), randn(32, 1)),
        "they have 6 and 32 rows",
        "do not hard-code the batch size",
    ),
    "squares": (
        lambda: functional.mse_loss(randn(4, 3), randn(4, 2)),
        "mse_loss (",
        "as many outputs as the target has",
    ),
}


@pytest.mark.parametrize("name", LOSSES)
def test_a_loss_says_how_its_targets_must_look(name: str) -> None:
    act, needs, fix = LOSSES[name]
    found = explained(act)
    assert found.kind == "shape"
    assert needs in found.sentence
    assert fix in next(iter(found.fixes), "")


a, b, wide = randn(4, 3), randn(5, 3), randn(17, 64)
EXPRESSIONS: dict[str, tuple[Callable[[], object], str, str]] = {
    "product": (lambda: a @ b, "a is float32 (4, 3) and b is float32 (5, 3)", "a @ b.T"),
    "sum": (lambda: a + b, "at non-singleton dimension 0; a is float32 (4, 3)", ""),
    "list": (lambda: torch.stack([a, b]), "`torch.stack([a, b])`", ""),
    "view": (lambda: wide.view(32, 64), "which is (17, 64)", "do not hard-code the batch size"),
    "view of a multiple": (lambda: wide.view(-1, 63), "not a multiple of 63", "print the shape"),
    "view of a transpose": (lambda: a.t().view(-1), "not in this order in", ".reshape(...)"),
    "axis": (lambda: a.sum(2), "dimension out of range", "removed or added an axis"),
    "permute": (lambda: a.permute(0, 2, 1), "number of dimensions", "removed or added an axis"),
    "scalar": (lambda: a.item(), "converted to Scalar", ""),
    "axis of one": (lambda: torch.cat([a, a[0]]), "same number of dimensions", ""),
}


@pytest.mark.parametrize("name", EXPRESSIONS)
def test_an_expression_says_what_it_was_made_of(name: str) -> None:
    act, needs, fix = EXPRESSIONS[name]
    found = explained(act)
    assert found.kind == "shape"
    assert needs in found.sentence
    assert fix in next(iter(found.fixes), "")
    assert found.module is None


def test_a_backward_begins_at_one_number() -> None:
    loss = nn.Linear(3, 2)(a)
    assert explained(loss.backward).fixes == ("reduce the loss first: loss.mean() or loss.sum()",)


def test_other_texts_are_not_taken_for_shapes() -> None:
    assert unexplained(lambda: int("x"))
    assert unexplained(lambda: {}["mat1 and mat2"])
