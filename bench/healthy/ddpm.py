"""Denoising diffusion in two dimensions: predict the noise, with an average of the weights."""

import copy
import math

import torch
import torch.nn.functional as F
from _common import seeded
from torch import nn

options = seeded(steps=500)
T = 50
beta = torch.linspace(1e-4, 0.05, T)
alpha_bar = torch.cumprod(1 - beta, 0)


def spiral(n):
    t = 3 * math.pi * torch.rand(n).sqrt()
    return torch.stack([t.cos() * t, t.sin() * t], 1) / 5 + 0.05 * torch.randn(n, 2)


class Denoiser(nn.Module):
    def __init__(self):
        super().__init__()
        self.time = nn.Embedding(T, 32)
        self.inp = nn.Linear(2, 64)
        self.hidden = nn.Linear(96, 96)
        self.out = nn.Linear(96, 2)

    def forward(self, x, t):
        h = torch.cat([F.silu(self.inp(x)), self.time(t)], 1)
        return self.out(F.silu(self.hidden(h)))


model = Denoiser()
average = copy.deepcopy(model).requires_grad_(False)
optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
for step in range(options.steps):
    x0 = spiral(128)
    t = torch.randint(0, T, (128,))
    noise = torch.randn_like(x0)
    xt = alpha_bar[t].sqrt()[:, None] * x0 + (1 - alpha_bar[t]).sqrt()[:, None] * noise
    loss = F.mse_loss(model(xt, t), noise)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    with torch.no_grad():
        for slow, fast in zip(average.parameters(), model.parameters(), strict=True):
            slow.lerp_(fast, 0.02)
    if step % 100 == 0:
        print(f"{step}: {loss.item():.4f}")

with torch.no_grad():
    x = torch.randn(256, 2)
    for t in reversed(range(T)):
        predicted = average(x, torch.full((256,), t))
        x = (x - beta[t] / (1 - alpha_bar[t]).sqrt() * predicted) / (1 - beta[t]).sqrt()
        if t:
            x += beta[t].sqrt() * torch.randn_like(x)
print("spread of samples", x.std(0).tolist())
