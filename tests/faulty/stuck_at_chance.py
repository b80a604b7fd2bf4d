"""Pixels divided by 255 twice: every row looks the same to the model."""

import torch
from data import arguments, classes
from torch import nn

options = arguments()
scale = 255.0 if options.healthy else 255.0**2
model = nn.Sequential(nn.Linear(12, 32), nn.Tanh(), nn.Linear(32, 8))
optimizer = torch.optim.SGD(model.parameters(), lr=0.02)
criterion = nn.CrossEntropyLoss()
for step, (x, y) in zip(range(700), classes(8), strict=False):
    pixels = ((40 * x + 128).clamp(0, 255) / scale - 0.5) / 0.25
    loss = criterion(model(pixels), y)  # <- here
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 50 == 0:
        print(step, loss.item())
