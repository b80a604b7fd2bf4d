"""A closure is called several times in a step."""

import torch
from common import STEPS, Log, batch
from torch import nn

torch.manual_seed(0)
generator = torch.Generator().manual_seed(1)
model = nn.Sequential(Log(), nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 3))
optimizer = torch.optim.LBFGS(model.parameters(), lr=0.05, max_iter=3)
for step in range(STEPS):
    x, y = batch(step, generator)

    def closure(x=x, y=y):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        return loss

    optimizer.step(closure)
