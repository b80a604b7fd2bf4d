import torch
from _start import digits, fit, loaders, start
from torch import nn

args = start()
model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1 if args.healthy else 1e-3)
fit(model, *loaders(*digits()), optimizer=optimizer)
