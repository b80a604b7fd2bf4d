"""The body of a network has its own group, whose learning rate is a million times too small."""

import torch
from data import arguments, classes
from torch import nn

options = arguments()
body = nn.Sequential(
    nn.Linear(12, 64),  # <- here
    nn.Tanh(),
)
head = nn.Linear(64, 4)
groups = [
    {"params": body.parameters(), "lr": 1e-3 if options.healthy else 1e-9},
    {"params": head.parameters(), "lr": 5e-3},
]
optimizer = torch.optim.Adam(groups)
criterion = nn.CrossEntropyLoss()
batches = classes()
model = nn.Sequential(body, head)
for step in range(100):
    x, y = next(batches)
    loss = criterion(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 20 == 0:
        print(step, loss.item())
