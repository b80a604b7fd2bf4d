"""A learning rate of 1e-9, typed for 1e-2: the loss stays where it began."""

import torch
from data import arguments, curve
from torch import nn

options = arguments()
model = nn.Sequential(nn.Linear(6, 32), nn.Tanh(), nn.Linear(32, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2 if options.healthy else 1e-9)
criterion = nn.MSELoss()
for step, (x, y) in zip(range(600), curve(rows=512), strict=False):
    loss = criterion(model(x), y)  # <- here
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 50 == 0:
        print(step, loss.item())
