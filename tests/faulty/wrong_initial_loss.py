"""The scores of a linear layer are divided by a temperature that is meant for similarities."""

import torch
from data import arguments, classes
from torch import nn
from torch.nn import functional

options = arguments()
temperature = 1.0 if options.healthy else 0.03
model = nn.Sequential(nn.Linear(12, 32), nn.ReLU(), nn.Linear(32, 4))
optimizer = torch.optim.Adam(model.parameters(), lr=0.001)
for step, (x, y) in zip(range(150), classes(spread=2.0), strict=False):
    loss = functional.cross_entropy(model(x) / temperature, y)  # <- here
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 20 == 0:
        print(step, loss.item())
