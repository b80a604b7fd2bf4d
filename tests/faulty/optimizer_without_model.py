"""The model is created again, for fresh weights, after the optimizer was created."""

import torch
from data import arguments, classes
from torch import nn


def make_model():
    return nn.Sequential(
        nn.Linear(12, 32),  # <- here
        nn.ReLU(),
        nn.Linear(32, 4),
    )


options = arguments()
model = make_model()
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
if not options.healthy:
    model = make_model()
criterion = nn.CrossEntropyLoss()
for step, (x, y) in zip(range(60), classes(), strict=False):
    loss = criterion(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, loss.item())
