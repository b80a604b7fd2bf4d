import torch
from _start import digits, fit, loaders, start
from torch import nn


def joined(samples):
    x = torch.stack([x for x, _ in samples])
    y = torch.stack([y for _, y in samples])
    return x, y if args.healthy else y[torch.randperm(len(y))]


args = start()
model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))
fit(model, *loaders(*digits(), collate_fn=joined))
