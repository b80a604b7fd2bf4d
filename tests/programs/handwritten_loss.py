"""A regression whose loss is plain arithmetic, with a hand-written penalty."""

import torch
from dataset import curve, loader
from digesting import begin
from torch import nn

digest = begin()
model = nn.Sequential(nn.Linear(4, 32), nn.Tanh(), nn.Linear(32, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
for epoch in range(4):
    for x, y in loader(*curve()):
        digest.batch(x, y)
        error = model(x) - y
        penalty = sum((weight**2).sum() for weight in model.parameters())
        loss = (error**2).mean() + 0.1 * error.abs().mean() + 1e-5 * penalty
        model.zero_grad()
        loss.backward()
        optimizer.step()
        digest.loss(loss)
    print(f"epoch {epoch}: {loss.item():.4f}")
digest.report(model)
