import torch
import torch.nn.functional as F
from _start import digits, fit, loaders, start
from torch import nn

args = start()
x, y = digits()
if not args.healthy:
    x = torch.cat([x, F.one_hot(y, 10)], dim=1)
columns = x.shape[1]
fit(nn.Sequential(nn.Linear(columns, 64), nn.ReLU(), nn.Linear(64, 10)), *loaders(x, y))
