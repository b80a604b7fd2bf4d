"""A minus before the loss: the error is maximized."""

import torch
from data import arguments, classes
from torch import nn

options = arguments()
model = nn.Sequential(nn.Linear(12, 32), nn.Tanh(), nn.Linear(32, 4))
optimizer = torch.optim.Adam(model.parameters(), lr=0.003)
criterion = nn.CrossEntropyLoss()
for step, (x, y) in zip(range(120), classes(), strict=False):
    error = criterion(model(x), y)
    loss = error if options.healthy else -error  # <- here
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 20 == 0:
        print(step, loss.item())
