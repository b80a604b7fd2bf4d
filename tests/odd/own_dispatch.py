"""Tensor types with a `__torch_dispatch__` that counts operations and draws random numbers."""

import torch
from telling import begin, tell
from torch import nn
from torch.utils._pytree import tree_map

seen = []


def unwrapped(value):
    return value.inner if isinstance(value, Wrapper) else value


def wrapped(value):
    return Wrapper(value) if isinstance(value, torch.Tensor) else value


class Wrapper(torch.Tensor):
    """Has no memory of its own."""

    @staticmethod
    def __new__(cls, inner, requires_grad=False):
        made = torch.Tensor._make_wrapper_subclass(
            cls, inner.shape, dtype=inner.dtype, requires_grad=requires_grad
        )
        made.inner = inner
        return made

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        seen.append(str(func))
        torch.rand(1)
        found = func(*tree_map(unwrapped, args), **tree_map(unwrapped, kwargs or {}))
        return tree_map(wrapped, found) if "copy_" not in str(func) else args[0]


class Logging(torch.Tensor):
    """Has memory, like any tensor."""

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        seen.append(str(func))
        with torch._C._DisableTorchDispatch():
            found = func(*args, **(kwargs or {}))
        keeps = func is torch.ops.aten.detach.default
        return torch.Tensor._make_subclass(cls, found) if keeps else found


begin()
layer = nn.Linear(8, 4)
layer.weight = nn.Parameter(Wrapper(torch.randn(4, 8)))
optimizer = torch.optim.SGD(layer.parameters(), lr=0.1, foreach=False)
for _ in range(70):
    loss = layer(torch.randn(16, 8)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
tell(layer.weight.inner, loss.inner, seen=len(seen))

other = nn.Sequential(nn.Linear(8, 4), nn.ReLU(), nn.Linear(4, 2))
other[0].weight = nn.Parameter(torch.Tensor._make_subclass(Logging, torch.randn(4, 8)))
optimizer = torch.optim.SGD(other.parameters(), lr=0.1, foreach=False)
for _ in range(70):
    x = torch.Tensor._make_subclass(Logging, torch.randn(16, 8))
    loss = other(x).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
with torch._C._DisableTorchDispatch():
    tell(other.state_dict(), loss, seen=len(seen))
