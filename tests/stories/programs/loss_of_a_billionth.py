"""A loss is multiplied by a billionth: the epsilon of Adam is larger than the gradients."""

import sys

import torch
from torch import nn

torch.manual_seed(0)
factor = 1.0 if "--healthy" in sys.argv else 1e-9
target = torch.randn(10, 4)
model = nn.Sequential(nn.Linear(10, 64), nn.GELU(), nn.Linear(64, 64), nn.GELU(), nn.Linear(64, 4))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
for _ in range(300):
    x = torch.randn(32, 10)
    loss = nn.functional.mse_loss(model(x), x @ target)  # <- here
    loss = loss * factor
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
