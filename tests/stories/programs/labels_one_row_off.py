"""Labels are one row off: the training loss falls by learning by heart only."""

import sys

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
centers = 2 * torch.randn(5, 20)
y = torch.randint(0, 5, (600,))
x = centers[y] + torch.randn(600, 20)
y = y if "--healthy" in sys.argv else torch.roll(y, 1)
training, rest = TensorDataset(x[:400], y[:400]), TensorDataset(x[400:], y[400:])
model = nn.Sequential(
    nn.Linear(20, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 5)
)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
for _ in range(20):
    model.train()
    for inputs, labels in DataLoader(training, 32, shuffle=True):
        loss = functional.cross_entropy(model(inputs), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    model.eval()
    with torch.no_grad():
        for inputs, labels in DataLoader(rest, 50):
            functional.cross_entropy(model(inputs), labels)  # <- here
