"""A schedule that plans for all steps is called once per pass: the warm-up never ends."""

import torch
import torch.nn.functional as F  # noqa: N812
from data import arguments, classes
from torch import nn

EPOCHS, STEPS = 6, 20

options = arguments()
model = nn.Sequential(nn.Linear(12, 32), nn.ReLU(), nn.Linear(32, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
schedule = torch.optim.lr_scheduler.OneCycleLR(  # <- here
    optimizer, max_lr=0.2, total_steps=EPOCHS * STEPS
)
batches = classes(spread=2.0)
for epoch in range(EPOCHS):
    for _, (x, y) in zip(range(STEPS), batches, strict=False):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        if options.healthy:
            schedule.step()
    if not options.healthy:
        schedule.step()
    print(epoch, loss.item(), schedule.get_last_lr())
