"""Images with their channels on the last axis, late in the data."""

import torch
from torch import nn

model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.Flatten(), nn.Linear(4 * 36, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for step in range(4):
    images = torch.randn(2, 3, 8, 8) if step < 3 else torch.randn(2, 8, 8, 3)
    loss = model(images).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
