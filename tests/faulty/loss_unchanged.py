"""A class loss over one output, which is always certain of its only class."""

import torch
import torch.nn.functional as F  # noqa: N812
from data import arguments, classes
from torch import nn

options = arguments()
outputs = 2 if options.healthy else 1
model = nn.Sequential(nn.Linear(12, 16), nn.ReLU(), nn.Linear(16, outputs))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
for step, (x, y) in zip(range(60), classes(), strict=False):
    target = (y > 1).long() if options.healthy else torch.zeros_like(y)
    loss = F.cross_entropy(model(x), target)  # <- here
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 20 == 0:
        print(step, loss.item())
