"""An epsilon of 10, far larger than the gradients, shortens each step of Adam."""

import torch
from data import arguments, classes
from torch import nn

options = arguments()
model = nn.Sequential(nn.Linear(12, 32), nn.Tanh(), nn.Linear(32, 4))
epsilon = 1e-8 if options.healthy else 10.0
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, eps=epsilon)  # <- here
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
