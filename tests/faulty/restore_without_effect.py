"""Keeps the best weights without a copy, and restores them after each part of training."""

import copy

import torch
import torch.nn.functional as F  # noqa: N812
from data import arguments, classes
from torch import nn

options = arguments()
model = nn.Sequential(nn.Linear(12, 32), nn.ReLU(), nn.Linear(32, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
batches = classes(spread=2.0)
x_val, y_val = next(batches)
lowest, best = float("inf"), model.state_dict()
for epoch in range(8):
    for _, (x, y) in zip(range(10), batches, strict=False):
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimizer.step()
    with torch.no_grad():
        validation = F.cross_entropy(model(x_val), y_val).item()
    if validation < lowest and epoch < 4:
        lowest, best = validation, model.state_dict()  # <- here
        best = copy.deepcopy(best) if options.healthy else best
    if epoch == 5:
        model.load_state_dict(best)
    print(epoch, validation)
