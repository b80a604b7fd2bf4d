from _start import digits, fit, loaders, start
from torch import nn

args = start()
head = nn.Linear(64, 10)
if not args.healthy:
    nn.init.normal_(head.weight, std=3.0)
fit(nn.Sequential(nn.Linear(64, 64), nn.ReLU(), head), *loaders(*digits()))
