"""Indices and labels out of range: their values and rows are named."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from tests.adapters.torch.explaining.raising import explained
from torch import nn
from torch.nn import functional

Case = tuple[Callable[[], object], str, str]
rows = torch.tensor
INDICES: dict[str, Case] = {
    "one too many": (
        lambda: nn.Embedding(10, 4)(rows([3, 10])),
        "with indices from 3 to 10 (wrong in row 1): it has only rows 0 to 9",
        "count from 0, or make it nn.Embedding(11, ...)",
    ),
    "far too many": (
        lambda: nn.Embedding(10, 4)(rows([[3, 99], [99, 4]])),
        "(wrong in rows 0, 1)",
        "match the model to the tokenizer",
    ),
    "padding": (
        lambda: nn.Embedding(10, 4)(rows([3, -100])),
        "indices from -100 to 3",
        "means padding",
    ),
    "a bag": (
        lambda: nn.EmbeddingBag(10, 4)(rows([[3, 10]])),
        "it has only rows 0 to 9",
        "count from 0",
    ),
    "an expression": (
        lambda: torch.zeros(5)[rows([7])],
        "index 7 is out of bounds for dimension 0 with size 5",
        "print the smallest and the largest index",
    ),
}


@pytest.mark.parametrize("name", INDICES)
def test_indices_without_a_row(name: str) -> None:
    act, needs, fix = INDICES[name]
    found = explained(act)
    assert found.kind == "index"
    assert needs in found.sentence
    assert fix in found.fixes[0]


scores = torch.zeros(4, 3)
LABELS: dict[str, Case] = {
    "beyond": (
        lambda: functional.cross_entropy(scores, rows([0, 7, 1, 5])),
        "labels from 0 to 7 (wrong in rows 1, 3): the predictions have only classes 0 to 2",
        "give the model 8 outputs",
    ),
    "from one": (
        lambda: functional.cross_entropy(scores, rows([1, 2, 3, 1])),
        "labels from 1 to 3",
        "number the classes from 0: y - 1",
    ),
    "masks": (
        lambda: functional.cross_entropy(torch.zeros(1, 2, 8, 8), rows([[[0, 255] * 4] * 8])),
        "labels from 0 to 255",
        "map the labels 0 and 255 to class numbers from 0 on",
    ),
    "borders": (
        lambda: functional.cross_entropy(torch.zeros(4, 3), rows([0, 2, 255, 1])),
        "labels from 0 to 255",
        "if 255 marks pixels without a class, pass ignore_index=255",
    ),
    "left out": (
        lambda: nn.CrossEntropyLoss()(scores, rows([1, 2, -1, 1])),
        "labels from -1 to 2 (wrong in row 2)",
        "ignore_index=-1",
    ),
    "binary": (
        lambda: functional.binary_cross_entropy(torch.full((4,), 0.5), rows([0, 1, 2.0, 1])),
        "targets from 0 to 2 (wrong in row 2): it accepts 0 to 1",
        "map the targets to 0 and 1",
    ),
    "scores": (
        lambda: functional.binary_cross_entropy(rows([0.5, -3.0]), rows([0, 1.0])),
        "predictions from -3 to 0.5 (wrong in row 1)",
        "with_logits",
    ),
}


@pytest.mark.parametrize("name", LABELS)
def test_labels_without_an_output(name: str) -> None:
    act, needs, fix = LABELS[name]
    found = explained(act)
    assert found.kind == "label"
    assert needs in found.sentence
    assert fix in found.fixes[0]


def test_an_assertion_of_the_device_names_no_wrong_line() -> None:
    class Asserted(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.ops.aten.linear(x, x, x.item())

    def fail() -> None:
        failing = Asserted()
        failing.register_forward_pre_hook(_assert_on_device)
        failing(torch.zeros(3))

    found = explained(fail)
    assert found.kind == "index"
    assert "raised by an earlier operation" in found.sentence
    assert "CUDA_LAUNCH_BLOCKING=1" in found.fixes[0]


def _assert_on_device(*_: object) -> None:
    # There is no device here: the text is that of the CUDA runtime.
    torch._assert_async(torch.zeros(1), "CUDA error: device-side assert triggered")
