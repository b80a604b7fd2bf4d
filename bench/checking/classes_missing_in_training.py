from _start import digits, fit, loaders, start
from torch import nn

args = start()
x, y = digits()
if not args.healthy:
    order = y.sort(stable=True).indices
    x, y = x[order], y[order]
fit(nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10)), *loaders(x, y))
