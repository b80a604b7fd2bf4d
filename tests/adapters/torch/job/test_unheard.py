"""No mode and no tensor subclass of the user observes what a hook does."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from tests.adapters.torch.watched import EVERYTHING, watched
from torch import nn
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from mothtrap.adapters.torch.job.unheard import UNHEARD
from mothtrap.statistics import torch as arithmetic
from mothtrap.statistics.torch.plain import has_own_dispatch


class Functions(TorchFunctionMode):
    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str] = []

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.seen.append(func.__name__)
        return func(*args, **(kwargs or {}))


class Operations(TorchDispatchMode):
    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.seen.append(func.__name__)
        return func(*args, **(kwargs or {}))


class Own(torch.Tensor):
    """A tensor subclass that records the operations on it."""

    seen: list[str] = []

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        cls.seen.append(func.__name__)
        return super().__torch_function__(func, types, args, kwargs or {})


class Dispatching(torch.Tensor):
    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        raise AssertionError(f"{func} was seen")


@pytest.mark.parametrize("kind", [Functions, Operations])
def test_modes_see_nothing_inside_and_all_afterwards(kind: type[Any]) -> None:
    tensor = torch.ones(2)
    with kind() as mode:
        with UNHEARD.enter():
            assert tensor.detach().add(1).shape == (2,)
            assert mode.seen == []
        tensor.add(1)
    assert mode.seen != []


def test_modes_are_as_before_when_a_hook_fails() -> None:
    with Functions() as outer, Operations() as inner:
        with pytest.raises(ZeroDivisionError), UNHEARD.enter():
            raise ZeroDivisionError
        torch.ones(2).add(1)
        assert outer.seen != []
        assert inner.seen != []
    assert UNHEARD.modes() == 0


def test_a_function_of_the_users_is_seen_although_a_hook_calls_it() -> None:
    with Functions() as mode, UNHEARD.enter(), UNHEARD.heard():
        torch.ones(2).add(1)
    assert mode.seen != []


def test_a_training_in_modes_is_counted_as_without_hooks() -> None:
    def train() -> tuple[list[str], list[str]]:
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 2))
        model[0].weight = nn.Parameter(model[0].weight.detach().as_subclass(Own))
        optimizer = torch.optim.Adam(model.parameters())
        Own.seen = []
        with Functions() as functions, Operations() as operations:
            for _ in range(3):
                loss = nn.functional.cross_entropy(model(torch.randn(2, 4)), torch.tensor([0, 1]))
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
        return functions.seen + Own.seen, operations.seen

    plain = train()
    with watched(capture=EVERYTHING) as seen:
        assert train() == plain
    assert seen.failed() == []
    assert seen.scalars("loss") != []


def test_types_with_a_dispatch_of_their_own_are_not_read() -> None:
    own = torch.Tensor._make_subclass(Dispatching, torch.ones(2))
    assert has_own_dispatch(own)
    empty = torch.ones(2, device="meta")
    for read in (arithmetic.norms, lambda tensors: arithmetic.summarize(tensors, ("l2", "nan"))):
        assert np.array_equal(read([own]), read([empty]), equal_nan=True)
    assert arithmetic.count_exponents_of([own]).sum() == 0
    for plain in (torch.ones(2), nn.Parameter(torch.ones(2)), torch.ones(2).as_subclass(Own)):
        assert not has_own_dispatch(plain)


def test_types_of_torch_are_read() -> None:
    rows = [torch.ones(2), torch.ones(3)]
    assert not has_own_dispatch(torch.nested.nested_tensor(rows, layout=torch.jagged))


def test_the_private_names_are_there() -> None:
    assert torch.Tensor.__torch_dispatch__ is torch._C._disabled_torch_dispatch_impl
    with Functions(), Operations():
        assert torch._C._len_torch_function_stack() == 1
        assert torch._C._len_torch_dispatch_stack() == 1
