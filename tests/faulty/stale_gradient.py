"""The second phase, from step 40 on, does not clear the gradients."""

import torch
from data import arguments, classes
from torch import nn

options = arguments()
model = nn.Sequential(nn.Linear(12, 32), nn.ReLU(), nn.Linear(32, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.02)
criterion = nn.CrossEntropyLoss()
batches = classes(spread=2.0)
for _, (x, y) in zip(range(40), batches, strict=False):
    optimizer.zero_grad()
    loss = criterion(model(x), y)
    loss.backward()
    optimizer.step()
for step, (x, y) in zip(range(40, 90), batches, strict=False):
    if options.healthy:
        optimizer.zero_grad()
    loss = criterion(model(x), y)
    loss.backward()
    optimizer.step()  # <- here
    if step % 10 == 0:
        print(step, loss.item())
