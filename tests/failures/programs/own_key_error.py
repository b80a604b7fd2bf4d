"""A mistake in the loop itself, not in the use of the framework."""

import torch
from torch import nn

model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
rates: dict[int, float] = {0: 0.1, 1: 0.2}
for step in range(4):
    loss = model(torch.randn(3, 4)).square().mean() * rates[step]
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
