"""From step 120 on, the targets are in another unit; the healthy program converts them."""

import torch
from data import arguments, curve
from torch import nn

options = arguments()
model = nn.Sequential(nn.Linear(6, 32), nn.Tanh(), nn.Linear(32, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
criterion = nn.MSELoss()
for step, (x, y) in zip(range(220), curve(), strict=False):
    target = y if step < 120 else 3.28 * y + 2.0
    if options.healthy and step >= 120:
        target = (target - 2.0) / 3.28
    loss = criterion(model(x), target)  # <- here
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 0.5)
    optimizer.step()
    if step % 20 == 0:
        print(step, loss.item())
