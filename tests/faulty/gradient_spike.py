"""One batch has targets in another unit: about a thousand instead of about one."""

import torch
from data import arguments, curve
from torch import nn

options = arguments()
model = nn.Sequential(nn.Linear(6, 32), nn.Tanh(), nn.Linear(32, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.02)
criterion = nn.MSELoss()
for step, (x, y) in zip(range(200), curve(), strict=False):
    if step == 120 and not options.healthy:
        y = 100.0 * y + 100.0
    loss = criterion(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, loss.item())
