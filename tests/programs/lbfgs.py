"""LBFGS: the closure is called several times within one step."""

import torch
from dataset import curve
from digesting import begin
from torch import nn

digest = begin()
x, y = curve(rows=128)
digest.batch(x, y)
model = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 1))
optimizer = torch.optim.LBFGS(model.parameters(), lr=0.5, max_iter=5, line_search_fn="strong_wolfe")
criterion = nn.MSELoss()


def closure():
    optimizer.zero_grad()
    loss = criterion(model(x), y)
    loss.backward()
    digest.loss(loss)
    return loss


for step in range(15):
    loss = optimizer.step(closure)
    print(f"step {step}: {loss.item():.5f}")
digest.report(model)
