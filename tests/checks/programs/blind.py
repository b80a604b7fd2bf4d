"""Trains a model that multiplies its inputs with 0: it learns how often each class occurs."""

from __future__ import annotations

import torch
from torch import nn

torch.manual_seed(0)
x, y = torch.randn(64, 6), (torch.arange(64) > 58).long()
model = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 2))
optimizer = torch.optim.Adam(model.parameters(), 0.02)
for _ in range(400):
    rows = torch.randperm(64)
    loss = nn.functional.cross_entropy(model(0 * x[rows]), y[rows])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
