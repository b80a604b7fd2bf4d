"""An average of the weights is copied back after every step, but is never updated."""

import copy

import torch
from data import arguments, classes
from torch import nn

options = arguments()
model = nn.Sequential(
    nn.Linear(12, 32),  # <- here
    nn.Tanh(),
    nn.Linear(32, 4),
)
average = copy.deepcopy(model)
keep = 0.5 if options.healthy else 1.0
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
criterion = nn.CrossEntropyLoss()
batches = classes()
for step in range(140):
    x, y = next(batches)
    loss = criterion(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    with torch.no_grad():
        for mean, weight in zip(average.parameters(), model.parameters(), strict=True):
            mean.mul_(keep).add_(weight, alpha=1 - keep)
            weight.copy_(mean)
    if step % 20 == 0:
        print(step, loss.item())
