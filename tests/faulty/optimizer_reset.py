"""Each epoch begins with a new optimizer."""

import torch
from data import arguments, classes
from torch import nn

options = arguments()
model = nn.Sequential(nn.Linear(12, 64), nn.ReLU(), nn.Linear(64, 4))
batches = classes()
optimizer = None
for epoch in range(8):
    if optimizer is None or not options.healthy:
        optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)  # <- here
    for _, (x, y) in zip(range(20), batches, strict=False):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
    print(epoch, loss.item())
