"""A table that contains the same temperature in two units."""

import torch
from data import arguments
from torch import nn

options = arguments()
celsius = 15 + 8 * torch.randn(1024, 1)
others = torch.randn(1024, 4)
second = torch.randn(1024, 1) if options.healthy else 1.8 * celsius + 32
table = torch.cat([celsius, others, second], dim=1)
table = (table - table.mean(dim=0)) / table.std(dim=0)
target = torch.tanh(table[:, :1]) + 0.5 * table[:, 1:2] + 0.1 * torch.randn(1024, 1)
model = nn.Sequential(
    nn.Linear(6, 32),  # <- here
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
