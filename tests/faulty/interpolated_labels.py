"""Label maps that are resized with bilinear interpolation."""

import torch
from data import arguments
from torch import nn
from torch.nn import functional

options = arguments()
maps = torch.zeros(128, 1, 37, 37)
for one in maps:
    for label in (1, 4):
        row, column = torch.randint(1, 22, (2,))
        one[:, row : row + 12, column : column + 12] = label
mode = "nearest" if options.healthy else "bilinear"
images = functional.interpolate(maps, size=(24, 24), mode="bilinear") / 4
labels = functional.interpolate(maps, size=(24, 24), mode=mode)[:, 0].long()
model = nn.Sequential(nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 5, 3, padding=1))
optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
for step in range(120):
    rows = torch.randint(0, 128, (16,))
    image = images[rows] + 0.1 * torch.randn(16, 1, 24, 24)
    loss = functional.cross_entropy(model(image), labels[rows])  # <- here
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 40 == 0:
        print(step, loss.item())
