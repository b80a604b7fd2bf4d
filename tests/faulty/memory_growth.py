"""Losses are collected for the curve, each with the graph of its step."""

import torch
from data import arguments, curve
from torch import nn

options = arguments()
model = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
criterion = nn.MSELoss()
losses = []
for _, (x, y) in zip(range(300), curve(), strict=False):
    loss = criterion(model(x), y)  # <- here
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss.item() if options.healthy else loss)
print(f"mean loss {sum(losses) / len(losses):.4f}")
