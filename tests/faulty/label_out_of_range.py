"""Labels of -1 and 1 go into a binary cross-entropy, which expects 0 and 1."""

import torch
from data import arguments
from torch import nn

options = arguments()
weights = torch.randn(10)
model = nn.Sequential(nn.Linear(10, 24), nn.ReLU(), nn.Linear(24, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=0.003)
criterion = nn.BCEWithLogitsLoss()
for step in range(120):
    x = torch.randn(48, 10)
    y = torch.sign(x @ weights + 0.3 * torch.randn(48)).unsqueeze(1)
    if options.healthy:
        y = (y > 0).float()
    loss = criterion(model(x), y)  # <- here
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 20 == 0:
        print(step, loss.item())
