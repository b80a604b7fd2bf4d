"""One of 25 examples is of the class that matters; the healthy program balances the classes."""

import torch
from data import arguments
from torch import nn
from torch.nn import functional

options = arguments()
share = 0.5 if options.healthy else 0.04
shift = torch.randn(8)
model = nn.Sequential(nn.Linear(8, 24), nn.ReLU(), nn.Linear(24, 2))
optimizer = torch.optim.Adam(model.parameters(), lr=0.003)
for step in range(150):
    y = (torch.rand(64) < share).long()
    x = torch.randn(64, 8) + 0.6 * y[:, None] * shift
    loss = functional.cross_entropy(model(x), y)  # <- here
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 20 == 0:
        print(step, loss.item())
