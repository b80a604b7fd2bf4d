import torch
from _start import digits, fit, loaders, start
from torch import nn

args = start()
x, y = digits()
names = [f"digit {number}" for number in range(10)]
if not args.healthy:
    names = list(set(names))
codes = torch.tensor([names.index(f"digit {number}") for number in range(10)])
fit(nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10)), *loaders(x, codes[y]))
