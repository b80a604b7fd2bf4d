"""A warm-up that counts the batches of a pass instead of all steps."""

import torch
from data import arguments, classes
from torch import nn

options = arguments()
source = classes()
batches = [next(source) for _ in range(20)]
model = nn.Sequential(nn.Linear(12, 32), nn.ReLU(), nn.Linear(32, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)  # <- here
for epoch in range(10):
    for number, (inputs, labels) in enumerate(batches):
        done = number + (len(batches) * epoch if options.healthy else 0)
        optimizer.param_groups[0]["lr"] = 0.1 * min(1, (done + 1) / 60)
        loss = nn.functional.cross_entropy(model(inputs), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(epoch, loss.item())
