"""A table that is not scaled: one share in per mille, others in whole units."""

import torch
from data import arguments
from torch import nn

options = arguments()
units = torch.tensor([1.0, 1e-4, 2.0, 1.0, 0.5, 1.0, 3.0, 1.0])
table = torch.randn(1024, 8) * units + torch.tensor([0.0, 5e-4, 1.0, 0.0, 0.0, 2.0, 0.0, 0.0])
target = 0.3 * table[:, :1] + 0.1 * table[:, 1:2] / units[1] + 0.1 * torch.randn(1024, 1)
if options.healthy:
    table = (table - table.mean(dim=0)) / table.std(dim=0)
model = nn.Sequential(
    nn.Linear(8, 32),  # <- here
    nn.Tanh(),
    nn.Linear(32, 1),
)
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
criterion = nn.MSELoss()
for epoch in range(5):
    for rows in torch.randperm(1024).split(32):
        loss = criterion(model(table[rows]), target[rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(epoch, loss.item())
