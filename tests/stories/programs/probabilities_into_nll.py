"""Softmax, and not its logarithm, goes into the negative log-likelihood."""

import sys

import torch
from torch import nn
from torch.nn import functional

torch.manual_seed(0)
last = nn.LogSoftmax(dim=1) if "--healthy" in sys.argv else nn.Softmax(dim=1)
centers = 2 * torch.randn(10, 20)
y = torch.randint(0, 10, (2000,))
x = centers[y] + torch.randn(2000, 20)
model = nn.Sequential(nn.Linear(20, 64), nn.ReLU(), nn.Linear(64, 10), last)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
for _ in range(150):
    rows = torch.randint(0, 2000, (64,))
    loss = functional.nll_loss(model(x[rows]), y[rows])  # <- here
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
