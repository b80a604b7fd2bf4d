"""Weights in bfloat16, and a learning rate whose updates are smaller than their spacing."""

import torch
from data import arguments, classes
from torch import nn

options = arguments()
model = nn.Sequential(nn.Linear(12, 32), nn.Tanh(), nn.Linear(32, 4))
if not options.healthy:
    model = model.to(torch.bfloat16)
kind = next(model.parameters()).dtype
optimizer = torch.optim.AdamW(model.parameters(), lr=5e-5)  # <- here
criterion = nn.CrossEntropyLoss()
batches = classes()
for _ in range(120):
    x, y = next(batches)
    loss = criterion(model(x.to(kind)).float(), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(loss.item())
