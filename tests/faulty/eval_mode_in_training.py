"""The first evaluation puts the model into evaluation mode, and nothing puts it back."""

import torch
from data import arguments, classes
from torch import nn

options = arguments()
model = nn.Sequential(
    nn.Linear(12, 64), nn.BatchNorm1d(64), nn.ReLU(), nn.Dropout(0.2), nn.Linear(64, 4)
)
optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
criterion = nn.CrossEntropyLoss()
batches = classes(spread=2.0)
validation = [next(batches) for _ in range(5)]


def evaluate():
    model.eval()  # <- here
    with torch.no_grad():
        return sum(criterion(model(x), y).item() for x, y in validation) / len(validation)


model.train()
for epoch in range(6):
    if options.healthy:
        model.train()
    for _, (x, y) in zip(range(20), batches, strict=False):
        optimizer.zero_grad()
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
    print(epoch, loss.item(), evaluate())
