import torch
from _start import digits, fit, loaders, start
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))

    def forward(self, x):
        return self.body(x if args.healthy else torch.zeros_like(x))


args = start()
fit(Net(), *loaders(*digits()))
