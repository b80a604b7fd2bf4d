"""A distance whose square root has no derivative at 0; step 23 compares a row with itself."""

import torch
from data import arguments, classes
from torch import nn

options = arguments()
encoder = nn.Sequential(nn.Linear(12, 24), nn.Tanh(), nn.Linear(24, 2))
optimizer = torch.optim.Adam(encoder.parameters(), lr=3e-3)
for step, (x, labels) in zip(range(60), classes(), strict=False):
    partner = torch.arange(32).roll(1)
    if step == 23:
        partner[5] = 5
    same = (labels == labels[partner]).float()
    point = encoder(x)
    squared = (point - point[partner]).pow(2).sum(1)
    distance = (squared + 1e-8 if options.healthy else squared).sqrt()  # <- here
    loss = (same * distance**2 + (1 - same) * (3 - distance).clamp(min=0) ** 2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, loss.item())
