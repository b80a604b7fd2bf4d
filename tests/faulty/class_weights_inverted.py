"""The weights of two classes are swapped, so the rare class counts even less."""

import torch
from data import arguments
from torch import nn

options = arguments()
centers = torch.randn(2, 12)
weight = torch.tensor([0.55, 5.0] if options.healthy else [5.0, 0.55])
model = nn.Sequential(nn.Linear(12, 32), nn.ReLU(), nn.Linear(32, 2))
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
criterion = nn.CrossEntropyLoss(weight=weight)
for _ in range(200):
    labels = (torch.rand(32) < 0.1).long()
    inputs = centers[labels] + torch.randn(32, 12)
    optimizer.zero_grad()
    loss = criterion(model(inputs), labels)  # <- here
    loss.backward()
    optimizer.step()
print(loss.item())
