import torch
from _start import digits, fit, loaders, start
from torch import nn

args = start()
x, y = digits()
if not args.healthy:
    x = torch.cat([x, x[:80]])
    y = torch.cat([y, (y[:80] + 1) % 10])
    order = torch.randperm(len(y))
    x, y = x[order], y[order]
fit(nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10)), *loaders(x, y))
