"""Data in numpy's default type, float64, for weights in float32."""

import numpy as np
import torch
from torch import nn

table = np.random.default_rng(0).normal(size=(16, 6))
model = nn.Sequential(nn.Linear(6, 4), nn.ReLU(), nn.Linear(4, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for step in range(3):
    rows = torch.from_numpy(table) if step == 2 else torch.from_numpy(table).float()
    loss = model(rows).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
