"""Training entirely in float16, with the default epsilon of Adam."""

import torch
from data import arguments, curve
from torch import nn

options = arguments()
model = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 1)).half()
epsilon = 1e-4 if options.healthy else 1e-8
optimizer = torch.optim.Adam(model.parameters(), lr=2e-3, eps=epsilon)  # <- here
batches = curve()
for _ in range(40):
    x, y = next(batches)
    loss = (model(x.half()) - y.half()).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(loss.item())
