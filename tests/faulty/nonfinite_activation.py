"""A module takes the logarithm of counts; the batch of step 31 holds counts of 0."""

import torch
from data import arguments
from torch import nn


class LogCounts(nn.Module):
    def __init__(self, offset):
        super().__init__()
        self.offset = offset

    def forward(self, counts):
        return torch.log(counts + self.offset)  # <- here


class Net(nn.Module):
    def __init__(self, offset):
        super().__init__()
        self.compress = LogCounts(offset)
        self.layers = nn.Sequential(nn.Linear(8, 24), nn.ReLU(), nn.Linear(24, 1))

    def forward(self, counts):
        return self.layers(self.compress(counts))


options = arguments()
model = Net(1.0 if options.healthy else 0.0)
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
criterion = nn.MSELoss()
for step in range(60):
    counts = torch.randint(0 if step == 31 else 1, 30, (32, 8)).float()
    if step == 31:
        counts[:4] = 0.0
    target = (counts + 1).log().mean(1, keepdim=True)
    loss = criterion(model(counts), target)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, loss.item())
