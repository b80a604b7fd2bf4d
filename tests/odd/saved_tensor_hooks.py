"""Hooks for saved tensors, a custom function, and hooks in the graph: all count their calls."""

import torch
from telling import begin, tell
from torch import nn
from torch.autograd.graph import register_multi_grad_hook, saved_tensors_hooks
from torch.utils.checkpoint import checkpoint

counts = {"pack": 0, "unpack": 0, "forward": 0, "backward": 0, "hook": 0, "multi": 0}


def counted(name, value):
    counts[name] += 1
    return value


class Cube(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        counts["forward"] += 1
        ctx.save_for_backward(x)
        return x**3

    @staticmethod
    def backward(ctx, gradient):
        counts["backward"] += 1
        (x,) = ctx.saved_tensors
        return 3 * x**2 * gradient


def pack(tensor):
    return counted("pack", tensor.double() if tensor.dtype is torch.float32 else tensor)


def unpack(tensor):
    return counted("unpack", tensor.float() if tensor.dtype is torch.float64 else tensor)


begin()
model = nn.Sequential(nn.Linear(8, 8), nn.Softmax(-1), nn.Linear(8, 3))
optimizer = torch.optim.RMSprop(model.parameters(), lr=0.001)
for _ in range(80):
    x, y = torch.randn(6, 8), torch.randint(3, (6,))
    with saved_tensors_hooks(pack, unpack):
        hidden = checkpoint(model[0], x, use_reentrant=False)
        out = model[2](model[1](Cube.apply(hidden)))
        loss = nn.functional.cross_entropy(out, y)
    out.register_hook(lambda gradient: counted("hook", None))
    register_multi_grad_hook([out, hidden], lambda gradients: counted("multi", None))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
tell(model, optimizer, loss, **counts)
