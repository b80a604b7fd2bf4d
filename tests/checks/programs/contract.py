"""Trains a network on a table; options change its width and the unit of its data."""

import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

parser = argparse.ArgumentParser()
parser.add_argument("--width", type=int, default=16)
parser.add_argument("--unit", type=float, default=1.0)
args = parser.parse_args()
torch.manual_seed(0)
x = torch.rand(200, 6)
y = (x[:, 0] > 0.5).long()
loader = DataLoader(TensorDataset(x * args.unit, y), 20)
model = nn.Sequential(nn.Linear(6, args.width), nn.ReLU(), nn.Linear(args.width, 2))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
for _epoch in range(50):
    for rows, labels in loader:
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(rows), labels).backward()
        optimizer.step()
