"""Thirty flowers, full batches, strong regularisation: few data, used with care."""

import torch
from _common import seeded
from sklearn.datasets import load_iris
from torch import nn

options = seeded(steps=150)
data = load_iris()
x = torch.tensor(data.data, dtype=torch.float32)
y = torch.tensor(data.target)
chosen = torch.randperm(150)
train, test = chosen[:30], chosen[30:]
mean, std = x[train].mean(0), x[train].std(0)
x = (x - mean) / std

model = nn.Linear(4, 3)
optimizer = torch.optim.Adam(model.parameters(), lr=0.05, weight_decay=1e-2)
criterion = nn.CrossEntropyLoss()
for step in range(options.steps):
    optimizer.zero_grad()
    loss = criterion(model(x[train]), y[train])
    loss.backward()
    optimizer.step()
with torch.no_grad():
    print("test accuracy", (model(x[test]).argmax(1) == y[test]).float().mean().item())
