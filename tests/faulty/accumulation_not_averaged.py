"""Eight micro-batches per step, and a loss that is not divided by eight."""

import torch
from data import arguments, classes
from torch import nn

options = arguments()
model = nn.Sequential(nn.Linear(12, 24), nn.ReLU(), nn.Linear(24, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.02)
criterion = nn.CrossEntropyLoss()
accumulation_steps = 8
for i, (x, y) in zip(range(60 * accumulation_steps), classes(), strict=False):
    loss = criterion(model(x), y)  # <- here
    if options.healthy:
        loss = loss / accumulation_steps
    loss.backward()
    if (i + 1) % accumulation_steps == 0:
        optimizer.step()
        optimizer.zero_grad()
        print(i, loss.item())
