"""Train a large network on few rows with noisy labels, and evaluate it after each epoch."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
torch.set_num_threads(1)


def noisy(count: int) -> TensorDataset:
    """Rows whose label is right in four of five."""
    rows = torch.randn(count, 20)
    labels = (rows[:, 0] + rows[:, 1] > 0).long()
    return TensorDataset(rows, torch.where(torch.rand(count) < 0.2, 1 - labels, labels))


training = DataLoader(noisy(256), batch_size=32, shuffle=True)
validation = DataLoader(noisy(512), batch_size=128)
model = nn.Sequential(
    nn.Linear(20, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 2)
)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
for _ in range(40):
    model.train()
    for inputs, targets in training:
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(inputs), targets).backward()
        optimizer.step()
    model.eval()
    with torch.no_grad():
        for inputs, targets in validation:
            nn.functional.cross_entropy(model(inputs), targets)
