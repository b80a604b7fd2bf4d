"""Weights are clamped, and averaged weights updated, through `p.data`, which changes no version."""

import torch
from common import STEPS, Log, batch
from torch import nn

torch.manual_seed(0)
generator = torch.Generator().manual_seed(1)
model = nn.Sequential(Log(), nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 3))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
for step in range(STEPS):
    x, y = batch(step, generator)
    for p in model.parameters():
        p.data.clamp_(-0.4, 0.4)
    model[1].bias.data = model[1].bias.data * 0.99
    optimizer.zero_grad()
    nn.functional.cross_entropy(model(x), y).backward()
    optimizer.step()
