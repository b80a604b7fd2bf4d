"""Samples of different lengths cannot be stacked into a batch."""

import torch
from torch import nn
from torch.utils.data import DataLoader

series = [torch.randn(4) for _ in range(6)] + [torch.randn(5)]
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
loader = DataLoader(series, batch_size=4)
for x in loader:
    loss = model(x).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
