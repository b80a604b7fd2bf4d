"""One label beyond the classes of the model."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

labels = torch.arange(24) % 3
labels[17] = 3
loader = DataLoader(TensorDataset(torch.randn(24, 6), labels), batch_size=6)
model = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 3))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for x, y in loader:
    loss = nn.functional.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
