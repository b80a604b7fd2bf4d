"""A regression ends in a ReLU, although half of its targets are negative."""

import torch
from data import arguments, curve
from torch import nn

options = arguments()
model = nn.Sequential(nn.Linear(6, 32), nn.Tanh(), nn.Linear(32, 1))
if not options.healthy:
    model.append(nn.ReLU())
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
criterion = nn.MSELoss()
for step, (x, y) in zip(range(120), curve(), strict=False):
    loss = criterion(model(x), y)  # <- here
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 20 == 0:
        print(step, loss.item())
