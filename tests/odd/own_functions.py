"""Tensor types with a `__torch_function__` that counts its calls and draws random numbers."""

import torch
from telling import begin, tell
from torch import nn

seen = []


class Counting(torch.Tensor):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        seen.append(getattr(func, "__name__", str(func)))
        return super().__torch_function__(func, types, args, kwargs or {})


class Noisy(torch.Tensor):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        torch.rand(1)
        return super().__torch_function__(func, types, args, kwargs or {})


class Plain(nn.Parameter):
    pass


class Net(nn.Module):
    def __init__(self, kind):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(8, 4).as_subclass(kind))
        self.bias = Plain(torch.zeros(4))
        self.register_buffer("calls", torch.zeros(1).as_subclass(kind))

    def forward(self, x):
        self.calls += 1
        return x @ self.weight + self.bias


begin()
for kind in (Counting, Noisy):
    model = Net(kind)
    optimizer = torch.optim.Adagrad(model.parameters(), lr=0.05)
    for step in range(90):
        x, y = torch.randn(16, 8).as_subclass(kind), torch.randn(16, 4).as_subclass(kind)
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(x), y)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if step % 30 == 0:
            with torch.no_grad():
                nn.functional.mse_loss(model(x), y)
    tell(model, loss, kind=type(model.weight).__name__, seen=len(seen))
