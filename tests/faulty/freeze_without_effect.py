"""Freezes a trained body with a misspelled attribute, which does nothing."""

import torch
import torch.nn.functional as F  # noqa: N812
from data import arguments, classes
from torch import nn

options = arguments()
model = nn.Sequential(nn.Linear(12, 32), nn.ReLU(), nn.Linear(32, 4))
batches = classes(spread=2.0)
for parameter in model[0].parameters():
    if options.healthy:
        parameter.requires_grad = False
    else:
        parameter.require_grad = False  # <- here
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
for step, (x, y) in zip(range(120), batches, strict=False):
    optimizer.zero_grad()
    loss = F.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
    if step % 40 == 0:
        print(step, loss.item())
