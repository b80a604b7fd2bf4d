"""Targets are created for the usual number of rows; the last batch has fewer."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

model = nn.Linear(5, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for (x,) in DataLoader(TensorDataset(torch.randn(70, 5)), batch_size=32):
    loss = (model(x) - torch.ones(32, 1)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
