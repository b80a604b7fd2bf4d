"""Eight hidden layers with sigmoids instead of ReLUs."""

import torch
from data import arguments, classes
from torch import nn

options = arguments()
layers = []
for size_in, size_out in zip([12] + [24] * 8, [24] * 8 + [4], strict=True):
    layers.append(nn.Linear(size_in, size_out))  # <- here
    if options.healthy:
        nn.init.kaiming_normal_(layers[-1].weight, nonlinearity="relu")
    layers.append(nn.ReLU() if options.healthy else nn.Sigmoid())
model = nn.Sequential(*layers[:-1])
optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
criterion = nn.CrossEntropyLoss()
for step, (x, y) in zip(range(200), classes(), strict=False):
    loss = criterion(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 20 == 0:
        print(step, loss.item())
