"""A module counts its calls, and its output depends on the count."""

import torch
from common import STEPS, Log, batch
from torch import nn


class Warming(nn.Module):
    """Multiplies by a factor that grows with each call."""

    def __init__(self):
        super().__init__()
        self.calls = 0

    def forward(self, x):
        """Return the product."""
        self.calls += 1
        return x * min(1.0, self.calls / 200)


torch.manual_seed(0)
generator = torch.Generator().manual_seed(1)
model = nn.Sequential(Warming(), Log(), nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 3))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
for step in range(STEPS):
    x, y = batch(step, generator)
    optimizer.zero_grad()
    nn.functional.cross_entropy(model(x), y).backward()
    optimizer.step()
