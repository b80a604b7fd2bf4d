"""Element types, devices, and arguments that are not tensors."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from tests.adapters.torch.explaining.raising import explained
from torch import nn
from torch.nn import functional

randn = torch.randn
Case = tuple[Callable[[], object], str, str]
TYPES: dict[str, Case] = {
    "float64": (
        lambda: nn.Linear(8, 1)(randn(2, 8).double()),
        "float64 (2, 8): its weights are float32",
        "x.float(): NumPy arrays",
    ),
    "integers": (
        lambda: nn.Linear(8, 1)(torch.ones(2, 8, dtype=torch.long)),
        "int64 (2, 8): its weights are float32",
        "x.to(torch.float32), and x / 255 for images",
    ),
    "half": (
        lambda: nn.Linear(8, 1)(randn(2, 8).bfloat16()),
        "bfloat16 (2, 8): its weights are float32",
        "run both under torch.autocast",
    ),
    "images": (
        lambda: nn.Conv2d(3, 4, 3)(torch.ones(4, 3, 8, 8, dtype=torch.uint8)),
        "uint8 (4, 3, 8, 8): its weights are float32",
        "x / 255 for images",
    ),
    "no indices": (
        lambda: nn.Embedding(10, 4)(randn(3)),
        "it needs int64 indices",
        "x.long()",
    ),
    "class numbers": (
        lambda: functional.cross_entropy(randn(4, 3), torch.zeros(4)),
        "class numbers must be int64",
        "target.long()",
    ),
    "one-hot": (
        lambda: functional.cross_entropy(randn(4, 3), torch.zeros(4, 3, dtype=torch.long)),
        "targets of this shape are probabilities",
        "target.float() for one-hot rows",
    ),
    "binary": (
        lambda: functional.binary_cross_entropy(torch.rand(4), torch.zeros(4, dtype=torch.long)),
        "the targets must be float32, like the predictions",
        "target.float()",
    ),
    "mean": (
        lambda: torch.ones(3, dtype=torch.long).mean(),
        "could not infer output dtype",
        "",
    ),
    "does not support this type": (
        lambda: nn.ReLU()(torch.ones(3, dtype=torch.bool)),
        "it does not support this type",
        "integers have no mean",
    ),
}


@pytest.mark.parametrize("name", TYPES)
def test_types_that_do_not_go_together(name: str) -> None:
    act, needs, fix = TYPES[name]
    found = explained(act)
    assert found.kind == "dtype"
    assert needs in found.sentence
    assert fix in next(iter(found.fixes), "")


def test_products_of_two_types() -> None:
    x, y = randn(3, 3), randn(3, 3).double()
    found = explained(lambda: x @ y)
    assert "x is float32 (3, 3) and y is float64 (3, 3)" in found.sentence
    assert "float64 usually comes from NumPy" in found.fixes[0]


NO_TENSORS: dict[str, Case] = {
    "a pair": (lambda: nn.Linear(8, 1)((randn(2, 8), None)), "a tuple of 2", "state = self.rnn(x)"),
    "nothing": (lambda: nn.Linear(8, 1)(None), "input = None", "without `return`"),
    "an array": (lambda: nn.Linear(8, 1)(randn(2, 8).numpy()), "an ndarray", "torch.from_numpy"),
    "a function": (lambda: functional.relu([randn(2)]), "got a list", "torch.stack(...)"),
}


@pytest.mark.parametrize("name", NO_TENSORS)
def test_what_is_no_tensor(name: str) -> None:
    act, needs, fix = NO_TENSORS[name]
    found = explained(act)
    assert found.kind == "type"
    assert needs in found.sentence
    assert fix in next(iter(found.fixes), "")


def test_a_layer_and_its_input_are_apart() -> None:
    found = explained(lambda: nn.Linear(8, 1)(randn(2, 8).to("meta")))
    assert found.kind == "device"
    assert "on meta: its weights are on cpu, but the input is on meta" in found.sentence
    assert found.fixes[0].startswith("move the batch: input = input.to('cpu')")


def test_weights_without_memory() -> None:
    found = explained(lambda: nn.Linear(8, 1, device="meta")(randn(2, 8)))
    assert "its weights have no memory" in found.sentence
    assert "to_empty" in found.fixes[0]


def test_operands_that_are_apart() -> None:
    x, y = randn(3), randn(3, device="meta")
    found = explained(lambda: x + y)
    assert (found.kind, found.module) == ("device", None)
    assert "these are on cpu and meta; x is float32 (3,) and y is" in found.sentence


def test_targets_that_are_apart() -> None:
    scores, target = randn(4, 3), torch.zeros(4, dtype=torch.long, device="meta")
    found = explained(lambda: functional.cross_entropy(scores, target))
    assert found.kind == "device"
    assert "these are on cpu and meta" in found.sentence
