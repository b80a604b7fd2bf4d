"""Batch normalization of a last batch of one row."""

import torch
from torch import nn
from torch.utils.data import DataLoader

model = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Linear(8, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
loader = DataLoader([torch.randn(4) for _ in range(9)], batch_size=4)
for x in loader:
    loss = model(x).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
