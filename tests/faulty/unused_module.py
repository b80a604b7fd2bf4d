"""Residual blocks in a plain Python list: the optimizer does not get them."""

import torch
from data import arguments, classes
from torch import nn


class Net(nn.Module):
    def __init__(self, depth, registered):
        super().__init__()
        self.stem = nn.Linear(12, 24)
        blocks = [
            nn.Sequential(nn.Linear(24, 24), nn.ReLU())  # <- here
            for _ in range(depth)
        ]
        self.blocks = nn.ModuleList(blocks) if registered else blocks
        self.head = nn.Linear(24, 4)

    def forward(self, x):
        x = self.stem(x)
        for block in self.blocks:
            x = x + block(x)
        return self.head(x)


options = arguments()
model = Net(depth=3, registered=options.healthy)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
criterion = nn.CrossEntropyLoss()
for step, (x, y) in zip(range(60), classes(), strict=False):
    loss = criterion(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, loss.item())
