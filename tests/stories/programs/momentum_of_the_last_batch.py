"""Batch norms with a momentum of 0.99, in the sense of other frameworks; 2 rows are left over."""

import sys

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
torch.set_num_threads(1)
momentum = 0.01 if "--healthy" in sys.argv else 0.99
centers = torch.randn(4, 20)
y = torch.arange(1202) % 4
x = centers[y] + torch.randn(1202, 20)
training, rest = TensorDataset(x[:802], y[:802]), TensorDataset(x[802:], y[802:])
model = nn.Sequential(
    nn.Linear(20, 64),
    nn.BatchNorm1d(64, momentum=momentum),  # <- here
    nn.ReLU(),
    nn.Linear(64, 4),
)
optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
for _ in range(10):
    model.train()
    for inputs, labels in DataLoader(training, 40, shuffle=True):
        loss = functional.cross_entropy(model(inputs), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    model.eval()
    with torch.no_grad():
        for inputs, labels in DataLoader(rest, 100):
            functional.cross_entropy(model(inputs), labels)
