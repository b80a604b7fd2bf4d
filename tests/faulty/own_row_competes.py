"""NT-Xent whose similarities of each row with itself are not masked."""

import torch
from data import arguments
from torch import nn
from torch.nn import functional

options = arguments()
objects = torch.randn(200, 16)
model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 8))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
for step in range(200):
    rows = objects[torch.randint(0, 200, (32,))]
    views = torch.cat([rows + 0.3 * torch.randn(32, 16) for _ in range(2)])
    z = functional.normalize(model(views), dim=1)
    similarity = z @ z.T / 0.5
    if options.healthy:
        similarity = similarity.masked_fill(torch.eye(64, dtype=torch.bool), float("-inf"))
    loss = functional.cross_entropy(similarity, torch.arange(64).roll(32))  # <- here
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 50 == 0:
        print(step, loss.item())
