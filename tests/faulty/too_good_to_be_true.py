"""The table still has the column that the target was computed from."""

import torch
from data import arguments
from torch import nn
from torch.nn import functional

options = arguments()
table = torch.randn(600, 8)
price = table @ torch.randn(8) + torch.randn(600)
features = [table] if options.healthy else [table, (2 * price - 1)[:, None]]
inputs, targets = torch.cat(features, dim=1), price[:, None]
model = nn.Sequential(nn.Linear(inputs.shape[1], 32), nn.ReLU(), nn.Linear(32, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for step in range(150):
    rows = torch.randint(0, 600, (64,))
    loss = functional.mse_loss(model(inputs[rows]), targets[rows])  # <- here
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 20 == 0:
        print(step, loss.item())
