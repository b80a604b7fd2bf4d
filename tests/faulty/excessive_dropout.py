"""A dropout layer gets the share to keep instead of the share to drop."""

import torch
from data import arguments, classes
from torch import nn

options = arguments()
model = nn.Sequential(
    nn.Linear(12, 64),
    nn.ReLU(),
    nn.Dropout(0.05 if options.healthy else 0.95),  # <- here
    nn.Linear(64, 4),
)
optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
batches = classes()
for step in range(200):
    x, y = next(batches)
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
    if step % 20 == 0:
        print(step, loss.item())
