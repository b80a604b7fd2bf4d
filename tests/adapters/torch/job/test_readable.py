from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext

import pytest
import torch
from tests.adapters.torch.watched import DEFAULT, EVERYTHING, batch, classifier, sgd, watched
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.nn import functional

from mothtrap.adapters.torch.job.readable import (
    has_own_values,
    is_countable,
    is_plain,
    is_readable,
    outside_transforms,
)
from mothtrap.capture.selection import Stream


def test_ordinary_tensors_and_parameters_are_plain() -> None:
    for tensor in (torch.ones(2), nn.Parameter(torch.ones(2)), torch.ones(2, dtype=torch.int8)):
        assert is_readable(tensor)
        assert is_plain(tensor)


def test_tensors_without_values_are_not_readable() -> None:
    assert not is_readable(torch.ones(2, device="meta"))
    with FakeTensorMode():
        assert not is_readable(torch.ones(2))


def test_a_subclass_is_readable_but_not_plain() -> None:
    tensor = torch.ones(2).as_subclass(type("Own", (torch.Tensor,), {}))
    assert is_readable(tensor)
    assert not is_plain(tensor)


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
def test_a_nested_tensor_is_not_plain() -> None:
    nested = torch.nested.nested_tensor([torch.ones(2), torch.ones(3)])
    assert not is_plain(nested)
    assert not has_own_values(nested)


@pytest.mark.filterwarnings("ignore:Sparse CSR tensor support", "ignore:torch.quantize_per_tensor")
def test_sparse_tensors_are_counted_and_not_plain_quantized_ones_neither() -> None:
    for sparse in (torch.eye(3).to_sparse(), torch.eye(3).to_sparse_csr()):
        assert is_countable(sparse)
        assert not is_plain(sparse)
        assert not has_own_values(sparse)
    quantized = torch.quantize_per_tensor(torch.ones(2), 0.1, 0, torch.quint8)
    assert not is_plain(quantized)
    assert not is_countable(quantized)


class Strange(nn.Module):
    """Passes its arguments on, between two layers."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last, self.same = nn.Linear(6, 8), nn.Linear(8, 3), nn.Identity()
        self.unused = nn.Linear(4, 4, device="meta")

    def forward(self, x: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
        other = self.same(other)
        out = self.last(self.first(x).relu())
        if other.layout in (torch.sparse_coo, torch.sparse_csr):
            out = torch.sparse.mm(other, out)
        return out


@pytest.mark.filterwarnings(
    "ignore:Sparse CSR tensor support",
    "ignore:torch.quantize_per_tensor",
    "ignore:The PyTorch API of nested tensors",
)
@pytest.mark.parametrize("kind", ["sparse", "sparse rows", "nested", "quantized", "meta"])
@pytest.mark.parametrize("capture", [DEFAULT, EVERYTHING], ids=["default", "everything"])
def test_a_tensor_of_another_kind_is_passed_over_by_itself_and_said_once(
    kind: str, capture: Sequence[Stream]
) -> None:
    others: dict[str, Callable[[], torch.Tensor]] = {
        "sparse": lambda: torch.eye(4).to_sparse(),
        "sparse rows": lambda: torch.eye(4).to_sparse_csr(),
        "nested": lambda: torch.nested.nested_tensor([torch.ones(2), torch.ones(3)]),
        "quantized": lambda: torch.quantize_per_tensor(torch.ones(2), 0.1, 0, torch.quint8),
        "meta": lambda: torch.ones(2, device="meta"),
    }
    other = others[kind]()
    with watched(capture=capture) as seen:  # fails where any part of mothtrap does
        model = Strange()
        own = [p for p in model.parameters() if not p.is_meta]
        optimizer = torch.optim.SGD(own, lr=0.1)
        for _ in range(24):
            x, y = batch()
            optimizer.zero_grad()
            functional.cross_entropy(model(x, other), y).backward()
            optimizer.step()
        model.eval()
        with torch.no_grad():
            functional.cross_entropy(model(x, other), y)
    assert len(seen.steps()) == 24
    assert seen.blind().count(f"{kind.partition(' ')[0]} tensors") == 1
    assert list(seen.rows("gradient:last.weight", "l2")) != []


def test_a_call_that_only_works_out_shapes_is_no_loss() -> None:
    with watched() as seen:
        model, shapes = nn.Linear(6, 3), nn.Linear(6, 3, device="meta")
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(8):
            x, y = batch()
            shapes(torch.ones(2, 6, device="meta"))
            optimizer.zero_grad()
            functional.cross_entropy(model(x), y).backward()
            optimizer.step()
    assert "meta tensors" not in seen.blind()


def test_a_tensor_that_stands_for_a_batch_is_not_readable() -> None:
    seen: list[bool] = []

    def inner(x: torch.Tensor) -> torch.Tensor:
        seen.append(is_readable(x) or has_own_values(x))
        return x.sum()

    torch.func.vmap(inner)(torch.ones(2, 3))
    torch.func.grad(inner)(torch.ones(3))
    assert seen == [False, False]


@pytest.mark.parametrize("raises", [False, True])
def test_what_is_read_outside_of_transforms_leaves_them_as_they_are(raises: bool) -> None:
    own, x = torch.ones(2), torch.arange(6.0).reshape(2, 3)
    read: list[float] = []

    def plain(x: torch.Tensor) -> torch.Tensor:
        return (x.sin() * x).sum()

    def looked_at(x: torch.Tensor) -> torch.Tensor:
        y = x.sin()
        with pytest.raises(KeyError) if raises else nullcontext(), outside_transforms():
            read.append(own.detach().numpy().sum())
            if raises:
                raise KeyError
        return (y * x).sum()

    grad, vmap = torch.func.grad, torch.func.vmap
    assert torch.equal(vmap(grad(looked_at))(x), vmap(grad(plain))(x))
    assert read == [2.0]
    assert is_readable(own)


def test_per_sample_gradients_by_function_transforms_are_left_alone() -> None:
    model = classifier()
    x, y = batch()

    def loss(weights: dict[str, torch.Tensor], x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        out = torch.func.functional_call(model, weights, (x[None],))
        return nn.CrossEntropyLoss()(out, y[None])

    per_sample = torch.func.vmap(torch.func.grad(loss), in_dims=(None, 0, 0))
    weights = {name: p.detach() for name, p in model.named_parameters()}
    expected = per_sample(weights, x, y)
    with watched() as seen:
        optimizer = sgd(model)
        found = per_sample(weights, x, y)
        functional.cross_entropy(model(x), y).backward()
        optimizer.step()
    assert all(torch.equal(found[name], expected[name]) for name in expected)
    assert len(seen.scalars("loss")) == 1
