"""A schedule that plans for all batches is called once for every four of them."""

import torch
import torch.nn.functional as F  # noqa: N812
from data import arguments, classes
from torch import nn

EPOCHS, BATCHES, ACCUMULATED = 6, 40, 4

options = arguments()
model = nn.Sequential(nn.Linear(12, 32), nn.ReLU(), nn.Linear(32, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
total = EPOCHS * BATCHES // (ACCUMULATED if options.healthy else 1)
schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=total)  # <- here
batches = classes(spread=2.0)
for epoch in range(EPOCHS):
    for number, (x, y) in zip(range(BATCHES), batches, strict=False):
        loss = F.cross_entropy(model(x), y) / ACCUMULATED
        loss.backward()
        if (number + 1) % ACCUMULATED == 0:
            optimizer.step()
            optimizer.zero_grad()
            schedule.step()
    print(epoch, loss.item(), schedule.get_last_lr())
