"""`maximize=True`, copied from reinforcement learning: the loss climbs steadily."""

import torch
from data import arguments, classes
from torch import nn

options = arguments()
model = nn.Linear(12, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.2, maximize=not options.healthy)
criterion = nn.CrossEntropyLoss()
for step, (x, y) in zip(range(300), classes(), strict=False):
    loss = criterion(model(x), y)  # <- here
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    norm = torch.stack([p.grad.norm() for p in model.parameters()]).norm()
    if step % 20 == 0:
        print(step, loss.item(), norm.item())
