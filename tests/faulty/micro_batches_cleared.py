"""Four micro-batches per step, and gradients that are cleared before each of them."""

import torch
from data import arguments, classes
from torch import nn

options = arguments()
model = nn.Sequential(nn.Linear(12, 24), nn.ReLU(), nn.Linear(24, 4))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
criterion = nn.CrossEntropyLoss()
batches = classes()
for step in range(60):
    if options.healthy:
        optimizer.zero_grad()
    for _ in range(4):
        x, y = next(batches)
        if not options.healthy:
            optimizer.zero_grad()  # <- here
        loss = criterion(model(x), y) / 4
        loss.backward()
    optimizer.step()
    print(step, loss.item())
