import torch
from _start import digits, fit, loaders, start
from torch import nn

args = start()
model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3 if args.healthy else 0.3)
fit(model, *loaders(*digits()), optimizer=optimizer)
