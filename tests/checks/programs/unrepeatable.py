"""A seeded script; with `--fault`, the order of its classes is the order of a set of strings."""

import sys

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
torch.set_num_threads(1)
names = [f"kind {number}" for number in range(40)]
if "--fault" in sys.argv:
    names = list(set(names))
codes = torch.tensor([int(name.split()[1]) for name in names]).repeat(10)
loader = DataLoader(TensorDataset(torch.randn(400, 8), codes), 20, shuffle=True)
model = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 40))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
for _epoch in range(30):
    for x, y in loader:
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
