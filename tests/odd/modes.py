"""Modes around a training: function and dispatch modes, a default device, counted operations."""

import torch
from telling import begin, tell
from torch import nn
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import FlopCounterMode


class Functions(TorchFunctionMode):
    seen = 0

    def __torch_function__(self, func, types, args=(), kwargs=None):
        Functions.seen += 1
        return func(*args, **(kwargs or {}))


class Operations(TorchDispatchMode):
    seen = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        Operations.seen += 1
        torch.rand(1)
        return func(*args, **(kwargs or {}))


class Inside(nn.Module):
    """A module that enters a mode itself."""

    def __init__(self):
        super().__init__()
        self.layer, self.other = nn.Linear(16, 16), nn.Linear(16, 16)

    def forward(self, x):
        with Functions():
            x = self.layer(x)
        with Operations():
            return self.other(x)


begin()
model = nn.Sequential(nn.Linear(8, 16), Inside(), nn.ReLU(), nn.Dropout(0.1), nn.Linear(16, 3))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)


def train(steps):
    for _ in range(steps):
        x, y = torch.randn(8, 8), torch.randint(3, (8,))
        loss = nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    with torch.no_grad():
        model(x)
    tell(model, optimizer, functions=Functions.seen, operations=Operations.seen)


train(5)
with Functions():
    train(20)
with Operations():
    train(20)
with FlopCounterMode(display=False) as counter:
    train(70)
print("flops", counter.get_total_flops())
torch.set_default_device("cpu")
with Functions(), Operations():
    train(20)
