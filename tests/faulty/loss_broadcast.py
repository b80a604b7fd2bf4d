"""Predictions (32, 1) minus targets (32,): a table of 32 x 32 errors."""

import torch
from data import arguments, curve
from torch import nn

options = arguments()
model = nn.Sequential(nn.Linear(6, 32), nn.Tanh(), nn.Linear(32, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
for step, (x, y) in zip(range(200), curve(), strict=False):
    prediction = model(x).squeeze(1) if options.healthy else model(x)
    loss = ((prediction - y.squeeze(1)) ** 2).mean()  # <- here
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 20 == 0:
        print(step, loss.item())
