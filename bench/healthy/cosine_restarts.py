"""Cosine annealing with warm restarts; the loss jumps at each restart, as it should."""

import torch
from _common import digits, seeded
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

options = seeded(epochs=14)
x, y, x_test, y_test = digits(image=True)
loader = DataLoader(TensorDataset(x, y), batch_size=64, shuffle=True)
model = nn.Sequential(
    nn.Conv2d(1, 8, 3), nn.ReLU(), nn.Conv2d(8, 16, 3), nn.ReLU(), nn.Flatten(), nn.Linear(256, 10)
)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
scheduler = torch.optim.lr_scheduler.CosineAnnealingWarmRestarts(optimizer, T_0=2, T_mult=2)
criterion = nn.CrossEntropyLoss()
for epoch in range(options.epochs):
    for i, (images, labels) in enumerate(loader):
        optimizer.zero_grad()
        loss = criterion(model(images), labels)
        loss.backward()
        optimizer.step()
        scheduler.step(epoch + i / len(loader))
with torch.no_grad():
    print("test accuracy", (model(x_test).argmax(1) == y_test).float().mean().item())
