"""A count model with steps a little too long: down one wall of the valley and up the other."""

import torch
from data import arguments
from torch import nn

options = arguments()
x = 0.3 * torch.randn(400, 3)
counts = torch.poisson((0.5 + x[:, :1]).exp())
model = nn.Linear(3, 1)
nn.init.constant_(model.bias, 2.0)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
criterion = nn.PoissonNLLLoss()
for step in range(200):
    if step == 60 and not options.healthy:
        optimizer.param_groups[0]["lr"] = 1.42
    loss = criterion(model(x), counts)  # <- here
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 15 == 0:
        print(step, loss.item())
