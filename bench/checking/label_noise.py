import torch
from _start import digits, fit, loaders, start
from torch import nn

args = start()
x, y = digits()
wrong = torch.rand(len(y)) < (0.01 if args.healthy else 0.15)
y[wrong] = torch.randint(10, (int(wrong.sum()),))
fit(nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10)), *loaders(x, y))
