"""A learning rate for fine-tuning, in a network that is trained from scratch."""

import torch
from data import arguments, classes
from torch import nn

options = arguments()
model = nn.Sequential(nn.Linear(12, 32), nn.Tanh(), nn.Linear(32, 4))
rate = 2e-3 if options.healthy else 1e-6
optimizer = torch.optim.Adam(model.parameters(), lr=rate)  # <- here
criterion = nn.CrossEntropyLoss()
batches = classes()
for step in range(260):
    x, y = next(batches)
    loss = criterion(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 20 == 0:
        print(step, loss.item())
