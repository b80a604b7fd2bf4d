"""The loss is computed from numbers that are detached from the graph."""

import torch
from torch import nn

model = nn.Sequential(nn.Linear(6, 4), nn.ReLU(), nn.Linear(4, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
prediction = model(torch.randn(3, 6))
loss = (prediction.detach() - 1).square().mean()
loss.backward()
optimizer.step()
