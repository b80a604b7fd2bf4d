"""Backward on every fourth batch, step on every batch: gradients are applied four times."""

import torch
from data import arguments, classes
from torch import nn

options = arguments()
model = nn.Sequential(nn.Linear(12, 32), nn.ReLU(), nn.Linear(32, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
criterion = nn.CrossEntropyLoss()
for step, (x, y) in zip(range(120), classes(), strict=False):
    loss = criterion(model(x), y)
    if step % 4 == 0 or options.healthy:
        optimizer.zero_grad()
        loss.backward()
    optimizer.step()
    if step % 20 == 0:
        print(step, loss.item())
