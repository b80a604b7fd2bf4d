"""A linear layer of the wrong width: the very first step fails."""

import torch
from torch import nn

model = nn.Sequential()
model.add_module("conv", nn.Conv2d(1, 4, 3))
model.add_module("pool", nn.MaxPool2d(2))
model.add_module("flatten", nn.Flatten())
model.add_module("fc1", nn.Linear(64, 10))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
loss = model(torch.randn(5, 1, 8, 8)).sum()
loss.backward()
optimizer.step()
