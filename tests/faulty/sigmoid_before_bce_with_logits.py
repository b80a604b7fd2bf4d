"""The model ends in a sigmoid, and the loss applies another."""

import torch
from data import arguments, classes
from torch import nn

options = arguments()
model = nn.Sequential(nn.Linear(12, 32), nn.ReLU(), nn.Linear(32, 1))
if not options.healthy:
    model.append(nn.Sigmoid())
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
criterion = nn.BCEWithLogitsLoss()
for step, (x, y) in zip(range(120), classes(2), strict=False):
    loss = criterion(model(x), y.unsqueeze(1).float())  # <- here
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 20 == 0:
        print(step, loss.item())
