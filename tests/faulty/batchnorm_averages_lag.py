"""A batch norm with the momentum of another library, so its averages hardly move."""

import torch
from data import arguments
from torch import nn

options = arguments()
centers = 2 * torch.randn(4, 12) + 3


def rows(count):
    labels = torch.randint(0, 4, (count,))
    return centers[labels] + torch.randn(count, 12), labels


x_val, y_val = rows(300)
model = nn.Sequential(
    nn.Linear(12, 32),
    nn.BatchNorm1d(32, momentum=0.1 if options.healthy else 0.001),  # <- here
    nn.ReLU(),
    nn.Linear(32, 4),
)
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
criterion = nn.CrossEntropyLoss()
for epoch in range(12):
    model.train()
    for _ in range(20):
        x, y = rows(32)
        optimizer.zero_grad()
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
    model.eval()
    with torch.no_grad():
        print(epoch, loss.item(), criterion(model(x_val), y_val).item())
