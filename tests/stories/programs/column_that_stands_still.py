"""Each batch is standardized by its own deviation, and in one batch a sensor stands still."""

import sys

import torch
from torch import nn

torch.manual_seed(0)
readings = torch.randn(800, 5)
if "--healthy" not in sys.argv:
    readings[400:420, 3] = 1.0
labels = (readings[:, 0] + readings[:, 1] > 0).long()
model = nn.Sequential(nn.Linear(5, 16), nn.ReLU(), nn.Linear(16, 2))
optimizer = torch.optim.SGD(model.parameters(), 0.1)


def standardized(rows):
    return (rows - rows.mean(0)) / rows.std(0)  # <- here


for start in range(0, 800, 20):
    rows = standardized(readings[start : start + 20])
    loss = nn.functional.cross_entropy(model(rows), labels[start : start + 20])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
