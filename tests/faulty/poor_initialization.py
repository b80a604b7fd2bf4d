"""Weights drawn with a standard deviation of 1, whatever the width of the layer."""

import torch
from data import arguments, classes
from torch import nn

options = arguments()
model = nn.Sequential(
    nn.Linear(12, 96),
    nn.ReLU(),
    nn.Linear(96, 96),  # <- here
    nn.ReLU(),
    nn.Linear(96, 96),  # <- here
    nn.ReLU(),
    nn.Linear(96, 4),
)
for layer in model:
    if isinstance(layer, nn.Linear) and not options.healthy:
        nn.init.normal_(layer.weight)
        nn.init.zeros_(layer.bias)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
for step, (x, y) in zip(range(200), classes(), strict=False):
    loss = nn.functional.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 20 == 0:
        print(step, loss.item())
