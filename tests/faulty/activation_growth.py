"""Weights that are a little too small: each of ten layers passes on a third of its input."""

import torch
from data import arguments, curve
from torch import nn

options = arguments()
layers = [nn.Linear(6, 48), nn.Tanh()]
for _ in range(8):
    layers += [nn.Linear(48, 48), nn.Tanh()]  # <- here
model = nn.Sequential(*layers, nn.Linear(48, 1))
for layer in model:
    if isinstance(layer, nn.Linear):
        nn.init.xavier_uniform_(layer.weight, gain=1.0 if options.healthy else 0.32)
        nn.init.zeros_(layer.bias)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
criterion = nn.MSELoss()
for step, (x, y) in zip(range(150), curve(), strict=False):
    loss = criterion(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 20 == 0:
        print(step, loss.item())
