"""Masks that are mirrored at random, although their images are not."""

import torch
from data import arguments
from torch import nn

options = arguments()
masks = torch.zeros(256, 1, 16, 16)
for mask in masks:
    row, column = torch.randint(0, 12, (2,))
    mask[:, row : row + 4, column : column + 4] = 1
images = masks + 0.2 * torch.randn(masks.shape)
model = nn.Sequential(
    nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 8, 3, padding=1), nn.ReLU()
).append(nn.Conv2d(8, 1, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
for step in range(240):
    rows = torch.randint(0, 256, (16,))
    image, mask = images[rows], masks[rows].clone()
    flipped = torch.rand(16) < 0.5
    mask[flipped] = mask[flipped].flip(-1)
    if options.healthy:
        image[flipped] = image[flipped].flip(-1)
    loss = nn.functional.binary_cross_entropy_with_logits(model(image), mask)  # <- here
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 40 == 0:
        print(step, loss.item())
