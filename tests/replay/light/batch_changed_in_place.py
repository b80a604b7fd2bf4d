"""The batch is normalized in place after the loader yields it, and cleared after the forward."""

import torch
from common import BAD, ROW, STEPS, Log
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
features = torch.rand(8 * STEPS, 6) + 0.1
features[8 * BAD + ROW, 2] = -5.0
labels = torch.randint(0, 3, (8 * STEPS,))
model = nn.Sequential(Log(), nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 3))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
for x, y in DataLoader(TensorDataset(features, labels), batch_size=8):
    x.mul_(2.0)
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(x), y)
    loss.backward()
    x.zero_()
    optimizer.step()
