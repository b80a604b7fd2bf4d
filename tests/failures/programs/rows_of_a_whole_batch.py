"""A tensor created for the usual number of rows meets a smaller last batch."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

model = nn.Linear(5, 1)
ones = torch.ones(32, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for (x,) in DataLoader(TensorDataset(torch.randn(70, 5)), batch_size=32):
    difference = model(x) - ones
    optimizer.zero_grad()
    difference.square().mean().backward()
    optimizer.step()
