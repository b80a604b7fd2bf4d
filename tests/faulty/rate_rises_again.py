"""A cosine schedule plans for a few epochs, and is called in every step."""

import math

import torch
from data import arguments
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

options = arguments()
x = torch.randn(640, 10)
y = torch.tanh(x @ torch.randn(10, 1)) + 0.1 * torch.randn(640, 1)
loader = DataLoader(TensorDataset(x, y), batch_size=16, shuffle=True)
model = nn.Sequential(nn.Linear(10, 32), nn.Tanh(), nn.Linear(32, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
period = 8 * len(loader) if options.healthy else 8


def share(call):
    return 0.5 * (1 + math.cos(math.pi * call / period))


schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, share)
for epoch in range(6):
    for inputs, targets in loader:
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(inputs), targets)
        loss.backward()
        optimizer.step()
        schedule.step()
    print(epoch, loss.item())
