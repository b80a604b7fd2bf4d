"""Energies of noise are pushed up without a margin: nothing holds the loss."""

import sys

import torch
from torch import nn

torch.manual_seed(0)
x = torch.randn(512, 16)
model = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.02)
for _ in range(60):
    real = model(x[torch.randint(0, 512, (32,))]).square().mean()
    noise = model(4 * torch.randn(32, 16)).square().mean()
    pushed = torch.relu(1 - noise) if "--healthy" in sys.argv else 7e4 - 5 * noise
    loss = real + pushed  # <- here
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
