"""A contrastive loss without its minus sign."""

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
    first, second = (
        functional.normalize(model(rows + 0.3 * torch.randn(32, 16)), dim=1) for _ in range(2)
    )
    powers = torch.exp(first @ second.T / 0.5)
    likelihood = torch.log(powers.diagonal() / powers.sum(1)).mean()
    loss = -likelihood if options.healthy else likelihood  # <- here
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 50 == 0:
        print(step, loss.item())
