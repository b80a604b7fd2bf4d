"""An averaged model is evaluated, but its batch norms have never seen a batch."""

from copy import deepcopy

import torch
from data import arguments, classes
from torch import nn
from torch.nn import functional

options = arguments()
batches = classes()
model = nn.Sequential(nn.Linear(12, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Linear(32, 4))
averaged = deepcopy(model).eval()
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
for step in range(200):
    x, y = next(batches)
    loss = functional.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    with torch.no_grad():
        for mean, parameter in zip(averaged.parameters(), model.parameters(), strict=True):
            mean.mul_(0.9).add_(parameter, alpha=0.1)
        if options.healthy:
            for mean, buffer in zip(averaged.buffers(), model.buffers(), strict=True):
                mean.copy_(buffer)
    if step % 50 == 49:
        with torch.no_grad():
            x, y = next(batches)
            right = (averaged(x).argmax(1) == y).float().mean()  # <- here
        print(step, loss.item(), right.item())
