from __future__ import annotations

from contextlib import nullcontext

import pytest
import torch
from tests.adapters.torch.watched import batch, classifier, sgd, watched
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.nn import functional

from mothtrap.adapters.torch.readable import (
    has_own_values,
    is_plain,
    is_readable,
    outside_transforms,
)


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
