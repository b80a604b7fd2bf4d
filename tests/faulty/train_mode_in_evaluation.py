"""Validation runs without gradients, but with dropout and batch norm as in training."""

import torch
import torch.nn.functional as F  # noqa: N812
from data import arguments, classes
from torch import nn

options = arguments()
model = nn.Sequential(
    nn.Linear(12, 64), nn.BatchNorm1d(64), nn.ReLU(), nn.Dropout(0.5), nn.Linear(64, 4)
)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
batches = classes(spread=2.0)
x_val, y_val = next(batches)
for epoch in range(6):
    model.train()
    for _, (x, y) in zip(range(15), batches, strict=False):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
    if options.healthy:
        model.eval()
    with torch.no_grad():
        out = model(x_val)  # <- here
        validation = F.cross_entropy(out, y_val).item()
        accuracy = (out.argmax(dim=1) == y_val).float().mean().item()
    print(epoch, loss.item(), validation, accuracy)
