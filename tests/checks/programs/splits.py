"""A classifier of a table; with `--leak` a part of the rows is in both data sets."""

import sys

import torch
from torch import nn
from torch.utils.data import DataLoader, Subset, TensorDataset

torch.manual_seed(0)
x = torch.randn(400, 6)
y = (x[:, 0] > 0).long() + (x[:, 1] > 0).long()
data = TensorDataset(x, y)
held_out = range(270, 400) if "--leak" in sys.argv else range(300, 400)
training = DataLoader(Subset(data, range(300)), 16, shuffle=True)
evaluation = DataLoader(Subset(data, held_out), 100)

model = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 3))
optimizer = torch.optim.Adam(model.parameters())
for _ in range(3):
    for rows, labels in training:
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(rows), labels).backward()
        optimizer.step()
    with torch.no_grad():
        print(sum(int((model(rows).argmax(1) == labels).sum()) for rows, labels in evaluation))
