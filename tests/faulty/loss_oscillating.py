"""From step 100 on, batches of a second, noisier source alternate with the first source."""

import torch
from data import arguments
from torch import nn

options = arguments()
direction = torch.randn(6, 1) / 6**0.5


def source(noise, rows):
    x = torch.randn(rows, 6)
    return x, 2.0 + torch.tanh(x @ direction) + noise * torch.randn(rows, 1)


def batches():
    for number in range(250):
        if number < 100:
            yield source(0.5, 512)
        elif options.healthy:
            halves = source(0.5, 256), source(0.66, 256)
            yield tuple(torch.cat(parts) for parts in zip(*halves, strict=True))
        else:
            yield source(0.66 if number % 2 else 0.5, 512)


model = nn.Sequential(nn.Linear(6, 32), nn.Tanh(), nn.Linear(32, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
criterion = nn.MSELoss()
for step, (x, y) in enumerate(batches()):
    loss = criterion(model(x), y)  # <- here
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 20 == 0:
        print(step, loss.item())
