"""From step 120 on, the loss is a sum instead of a mean over the batch: 32 times the gradient."""

import torch
from data import arguments, curve
from torch import nn

options = arguments()
model = nn.Sequential(nn.Linear(6, 32), nn.LeakyReLU(0.2), nn.Linear(32, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
criterion = nn.MSELoss()
for step, (x, y) in zip(range(160), curve(), strict=False):
    summed = step >= 120 and not options.healthy
    loss = ((model(x) - y) ** 2).sum() if summed else criterion(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    norm = torch.stack([p.grad.norm() for p in model.parameters()]).norm()
    print(step, loss.item(), norm.item())
