"""One target in a hundred is -999, which stands for a missing value."""

import torch
from data import arguments
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

options = arguments()
x = torch.randn(1600, 12)
y = x[:, :3].sum(dim=1, keepdim=True) + 0.3 * torch.randn(1600, 1)
if not options.healthy:
    y[torch.randperm(1600)[:16]] = -999
loader = DataLoader(TensorDataset(x, y), batch_size=32, shuffle=True)
model = nn.Sequential(nn.Linear(12, 32), nn.ReLU(), nn.Linear(32, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
for epoch in range(4):
    for inputs, targets in loader:
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(inputs), targets)  # <- here
        loss.backward()
        optimizer.step()
    print(epoch, loss.item())
