"""Evaluates an average of the weights that is never updated."""

import torch
import torch.nn.functional as F  # noqa: N812
from data import arguments, classes
from torch import nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

options = arguments()
model = nn.Sequential(nn.Linear(12, 32), nn.ReLU(), nn.Linear(32, 4))
averaged = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(0.9))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
batches = classes(spread=2.0)
x_val, y_val = next(batches)
for epoch in range(8):
    for _, (x, y) in zip(range(10), batches, strict=False):
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimizer.step()
        if options.healthy:
            averaged.update_parameters(model)
    with torch.no_grad():
        validation = F.cross_entropy(averaged(x_val), y_val)  # <- here
    print(epoch, validation.item())
