"""A schedule over 10 epochs that is stepped once per batch: the rate is 0 from step 10 on."""

import torch
from data import arguments, classes
from torch import nn

EPOCHS, BATCHES = 10, 20
options = arguments()
model = nn.Sequential(nn.Linear(12, 32), nn.ReLU(), nn.Linear(32, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.02)
schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda epoch: max(0.0, 1 - epoch / EPOCHS))
criterion = nn.CrossEntropyLoss()
batches = classes()
for epoch in range(EPOCHS):
    for _ in range(BATCHES):
        x, y = next(batches)
        loss = criterion(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if not options.healthy:
            schedule.step()
    if options.healthy:
        schedule.step()
    print(epoch, loss.item(), schedule.get_last_lr()[0])
