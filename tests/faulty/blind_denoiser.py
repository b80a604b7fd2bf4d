"""A diffusion model that gets the clean data instead of the noisy data."""

import torch
from data import arguments
from torch import nn
from torch.nn import functional

options = arguments()
LEVELS = 20
kept = torch.linspace(0.98, 0.05, LEVELS)


class Denoiser(nn.Module):
    def __init__(self):
        super().__init__()
        self.times = nn.Embedding(LEVELS, 32)
        self.first, self.last = nn.Linear(32, 32), nn.Linear(32, 32)

    def forward(self, x, t):
        return self.last(torch.relu(self.first(x) + self.times(t)))


model = Denoiser()
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
basis = torch.randn(3, 32)
for step in range(300):
    x = torch.tanh(torch.randn(64, 3) @ basis)
    t = torch.randint(0, LEVELS, (64,))
    noise = torch.randn_like(x)
    noisy = kept[t, None].sqrt() * x + (1 - kept[t, None]).sqrt() * noise
    loss = functional.mse_loss(model(noisy if options.healthy else x, t), noise)  # <- here
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 50 == 0:
        print(step, loss.item())
