"""Segmentation of noisy squares: the Dice loss gets raw scores."""

import torch
from data import arguments
from torch import nn

options = arguments()


def squares(count):
    masks = torch.zeros(count, 1, 16, 16)
    for mask, (row, column) in zip(masks, torch.randint(0, 8, (count, 2)).tolist(), strict=True):
        mask[0, row : row + 8, column : column + 8] = 1
    return masks + 0.5 * torch.randn_like(masks), masks


model = nn.Sequential(nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 1, 3, padding=1))
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
for step in range(100):
    images, masks = squares(16)
    areas = model(images)
    if options.healthy:
        areas = torch.sigmoid(areas)
    common = (areas * masks).sum()
    loss = 1 - (2 * common + 1) / (areas.sum() + masks.sum() + 1)  # <- here
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 20 == 0:
        print(step, loss.item())
