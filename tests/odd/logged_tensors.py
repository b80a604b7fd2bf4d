"""Tensors logged by hand: they can be resized, and their type observes nothing of it."""

import torch
from telling import begin, tell
from torch import nn

import mothtrap

seen = []


class Counting(torch.Tensor):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        seen.append(func)
        return super().__torch_function__(func, types, args, kwargs or {})


begin()
model = nn.Linear(8, 3)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
kept, small = torch.empty(0), torch.zeros(())
for step in range(20):
    kept.resize_(4 + step, 8).normal_()
    loss = model(kept).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    mothtrap.log_tensor("kept", kept)
    mothtrap.log_tensor("list", [small, small])
    mothtrap.log("number", loss.detach().as_subclass(Counting))
    mothtrap.log_tensor("own", kept[:2].as_subclass(Counting))
    small.resize_(1 + step).resize_(())
tell(model, seen=len(seen))
