"""Rows of a weight are set to length 1; one of them is 0, and 0 / 0 is NaN."""

import torch
from data import arguments, classes
from torch import nn

options = arguments()
model = nn.Sequential(
    nn.Linear(12, 32),  # <- here
    nn.ReLU(),
    nn.Linear(32, 4),
)
with torch.no_grad():
    weight = model[0].weight
    weight[5] = 0  # pruned
    length = weight.norm(dim=1, keepdim=True)
    weight.div_(length.clamp(min=1e-6) if options.healthy else length)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
criterion = nn.CrossEntropyLoss()
batches = classes()
for _ in range(40):
    x, y = next(batches)
    loss = criterion(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(loss.item())
