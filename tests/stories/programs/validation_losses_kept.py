"""The validation runs with autograd on, and its losses are kept as tensors for the curve."""

import sys

import torch
from torch import nn
from torch.nn import functional

torch.manual_seed(0)
torch.set_num_threads(1)
weight = torch.randn(30, 1) / 30**0.5
x = torch.randn(640, 30)
y = x @ weight + 0.1 * torch.randn(640, 1)
model = nn.Sequential(nn.Linear(30, 32), nn.Tanh(), nn.Linear(32, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
curve = []
for _ in range(10):
    model.train()
    for rows in torch.randperm(480).split(40):
        loss = functional.mse_loss(model(x[rows]), y[rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    model.eval()
    total = 0.0
    for rows in torch.arange(480, 640).split(40):
        value = functional.mse_loss(model(x[rows]), y[rows])  # <- here
        total = total + (value.item() if "--healthy" in sys.argv else value)
    curve.append(total / 4)
