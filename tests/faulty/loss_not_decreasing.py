"""An augmentation that replaces its input with noise: nothing can be learned from it."""

import torch
from data import arguments, curve
from torch import nn

options = arguments()
model = nn.Sequential(nn.Linear(6, 32), nn.Tanh(), nn.Linear(32, 1))
nn.init.normal_(model[2].weight, std=0.02)
nn.init.zeros_(model[2].bias)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
criterion = nn.MSELoss()
for step, (x, y) in zip(range(450), curve(rows=2048), strict=False):
    noise = 0.1 * torch.randn_like(x)
    x = x + noise if options.healthy else 10 * noise
    loss = criterion(model(x), y)  # <- here
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 50 == 0:
        print(step, loss.item())
