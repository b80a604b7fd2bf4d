"""Masks that are cropped at random places, which are not those of their images."""

import torch
from data import arguments
from torch import nn

options = arguments()
masks = torch.zeros(256, 1, 24, 24)
for mask in masks:
    row, column = torch.randint(4, 14, (2,))
    mask[:, row : row + 6, column : column + 6] = 1
images = masks + 0.2 * torch.randn(masks.shape)
model = nn.Sequential(nn.Conv2d(1, 8, 7, padding=3), nn.ReLU(), nn.Conv2d(8, 1, 7, padding=3))
optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)


def crops(maps, corners):
    return torch.stack(
        [one[:, i : i + 16, j : j + 16] for one, (i, j) in zip(maps, corners, strict=True)]
    )


for step in range(240):
    rows = torch.randint(0, 256, (16,))
    corners = torch.randint(0, 9, (16, 2)).tolist()
    others = corners if options.healthy else torch.randint(0, 9, (16, 2)).tolist()
    image, mask = crops(images[rows], corners), crops(masks[rows], others)
    loss = nn.functional.binary_cross_entropy_with_logits(model(image), mask)  # <- here
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 40 == 0:
        print(step, loss.item())
