"""LBFGS whose closure does not clear the gradients: its evaluations add up."""

import sys

import torch
from torch import nn

torch.manual_seed(0)
x = torch.linspace(0, 6, 120).unsqueeze(1)
y = torch.sin(x) + 0.1 * torch.randn(120, 1)
model = nn.Sequential(nn.Linear(1, 24), nn.Tanh(), nn.Linear(24, 1))
optimizer = torch.optim.LBFGS(model.parameters(), lr=0.2, max_iter=20)


def closure() -> torch.Tensor:
    if "--healthy" in sys.argv:
        optimizer.zero_grad()
    loss = nn.functional.mse_loss(model(x), y)
    loss.backward()
    return loss


for step in range(5):
    loss = optimizer.step(closure)  # <- here
    print(step, loss.item())
