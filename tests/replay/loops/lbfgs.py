"""LBFGS with a closure."""

import torch
from torch import nn

torch.manual_seed(8)
x = torch.linspace(-1, 1, 40)[:, None]
y = torch.sin(3 * x)
model = nn.Sequential(nn.Linear(1, 8), nn.Tanh(), nn.Linear(8, 1))
optimizer = torch.optim.LBFGS(model.parameters(), lr=0.5, max_iter=5)
for _ in range(12):
    part = torch.randperm(40)[:30]

    def closure(part=part):
        optimizer.zero_grad()
        loss = ((model(x[part]) - y[part]) ** 2).mean()
        loss.backward()
        return loss

    optimizer.step(closure)
