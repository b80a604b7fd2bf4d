"""Adam with a learning rate of 0.5, for weights of about 0.2."""

import torch
from data import arguments, classes
from torch import nn

options = arguments()
model = nn.Sequential(nn.Linear(12, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 4))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2 if options.healthy else 0.5)  # <- here
criterion = nn.CrossEntropyLoss()
batches = classes()
for step in range(160):
    x, y = next(batches)
    loss = criterion(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 20 == 0:
        print(step, loss.item())
