import torch
from _start import digits, fit, loaders, start
from torch import nn


class Centered(nn.Module):
    def __init__(self, width):
        super().__init__()
        if args.healthy:
            self.register_buffer("mean", torch.zeros(width))
        else:
            self.mean = torch.zeros(width)

    def forward(self, x):
        if self.training:
            self.mean.mul_(0.9).add_(0.1 * x.detach().mean(0))
        return x - self.mean


args = start()
x, y = digits()
model = nn.Sequential(Centered(64), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
fit(model, *loaders(x + 1.5, y))
