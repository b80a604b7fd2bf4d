"""A classifier of eight classes whose second layer has two units."""

import torch
from data import arguments, classes
from torch import nn

options = arguments()
source = classes(count=8)
width = 32 if options.healthy else 2
model = nn.Sequential(nn.Linear(12, width), nn.ReLU(), nn.Linear(width, 8))  # <- here
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
for step in range(600):
    rows, labels = next(source)
    loss = nn.functional.cross_entropy(model(rows), labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 50 == 0:
        print(step, loss.item())
