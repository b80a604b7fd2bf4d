"""The model ends in a softmax, and the loss applies another."""

import torch
from data import arguments, classes
from torch import nn

options = arguments()
model = nn.Sequential(nn.Linear(12, 32), nn.ReLU(), nn.Linear(32, 4))
if not options.healthy:
    model.append(nn.Softmax(dim=1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
criterion = nn.CrossEntropyLoss()
for step, (x, y) in zip(range(120), classes(), strict=False):
    loss = criterion(model(x), y)  # <- here
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 20 == 0:
        print(step, loss.item())
