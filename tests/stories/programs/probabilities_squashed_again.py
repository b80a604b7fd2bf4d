"""The model ends in a sigmoid, and the line of the loss applies another one."""

import sys

import torch
from torch import nn

torch.manual_seed(0)
weights = torch.randn(12)
model = nn.Sequential(nn.Linear(12, 32), nn.ReLU(), nn.Linear(32, 1), nn.Sigmoid())
criterion = nn.BCELoss()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
for _ in range(150):
    x = torch.randn(64, 12)
    y = (x @ weights + 0.5 * torch.randn(64) > 0).float()
    probability = model(x).squeeze(1)
    given = probability if "--healthy" in sys.argv else torch.sigmoid(probability)
    loss = criterion(given, y)  # <- here
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
