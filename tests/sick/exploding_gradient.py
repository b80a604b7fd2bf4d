"""A schedule that multiplies the learning rate by 20 at step 120 where it should divide."""

import torch
from data import arguments, curve
from torch import nn

options = arguments()
model = nn.Sequential(nn.Linear(6, 32), nn.LeakyReLU(0.2), nn.Linear(32, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
schedule = torch.optim.lr_scheduler.MultiStepLR(
    optimizer, milestones=[120], gamma=0.05 if options.healthy else 20.0
)
criterion = nn.MSELoss()
for step, (x, y) in zip(range(160), curve(), strict=False):
    loss = criterion(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    schedule.step()
    norm = torch.stack([p.grad.norm() for p in model.parameters()]).norm()
    print(step, loss.item(), norm.item())
