"""Weight decay by hand with the wrong sign; batch normalization hides that the weights grow."""

import torch
from data import arguments, classes
from torch import nn

options = arguments()
model = nn.Sequential(
    nn.Linear(12, 64),  # <- here
    nn.BatchNorm1d(64),
    nn.ReLU(),
    nn.Linear(64, 64),  # <- here
    nn.BatchNorm1d(64),
    nn.ReLU(),
    nn.Linear(64, 4),
)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
criterion = nn.CrossEntropyLoss()
batches = classes()
decay = 0.02 if options.healthy else -0.02
for step in range(210):
    x, y = next(batches)
    loss = criterion(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    with torch.no_grad():
        for layer in (model[0], model[3]):
            layer.weight.mul_(1 - decay)
    if step % 20 == 0:
        print(step, loss.item())
