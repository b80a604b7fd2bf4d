"""Color images whose pixels are reshaped instead of permuted."""

import torch
import torch.nn.functional as F  # noqa: N812
from data import arguments
from torch import nn

options = arguments()
place = torch.linspace(-1, 1, 16)
tint = torch.tensor([0.9, 0.5, 0.2])
model = nn.Sequential(
    nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.MaxPool2d(4), nn.Flatten(), nn.Linear(128, 4)
)
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
for step in range(120):
    y = torch.randint(0, 4, (32,))
    center = torch.stack([y % 2 - 0.5, torch.div(y, 2, rounding_mode="floor") - 0.5])
    distance = (place[None, :, None] - center[0, :, None, None]) ** 2
    distance = distance + (place[None, None] - center[1, :, None, None]) ** 2
    images = torch.exp(-4 * distance)[..., None] * tint + 0.02 * torch.randn(32, 16, 16, 3)
    x = images.permute(0, 3, 1, 2) if options.healthy else images.reshape(-1, 3, 16, 16)
    loss = F.cross_entropy(model(x), y)  # <- here
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 40 == 0:
        print(step, loss.item())
