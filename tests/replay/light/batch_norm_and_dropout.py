"""Running statistics and random masks change in every forward."""

import torch
from common import STEPS, Log, batch
from torch import nn

torch.manual_seed(0)
generator = torch.Generator().manual_seed(1)
model = nn.Sequential(
    Log(), nn.Linear(6, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Dropout(0.3), nn.Linear(16, 3)
)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
for step in range(STEPS):
    x, y = batch(step, generator)
    optimizer.zero_grad()
    nn.functional.cross_entropy(model(x), y).backward()
    optimizer.step()
