"""The head is replaced for the new classes after the optimizer was created."""

import torch
from data import arguments, classes
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(12, 32), nn.ReLU())
        self.head = nn.Linear(32, 10)

    def forward(self, x):
        return self.head(self.body(x))


options = arguments()
model = Net()
if options.healthy:
    model.head = nn.Linear(32, 4)
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
if not options.healthy:
    model.head = nn.Linear(32, 4)  # <- here
criterion = nn.CrossEntropyLoss()
for step, (x, y) in zip(range(120), classes(), strict=False):
    loss = criterion(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 20 == 0:
        print(step, loss.item())
