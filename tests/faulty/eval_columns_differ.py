"""A classifier of a table; four columns of the test table are missing and filled with 0."""

import torch
from data import arguments, classes
from torch import nn

options = arguments()
source = classes(count=3)
x, labels = (torch.cat(p) for p in zip(*(next(source) for _ in range(30)), strict=True))
x_train, x_test = x[:800], x[800:].clone()
if not options.healthy:
    x_test[:, 2:6] = 0
model = nn.Sequential(nn.Linear(12, 32), nn.ReLU(), nn.Linear(32, 3))
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
for epoch in range(4):
    model.train()
    for rows in torch.randperm(800).split(32):
        loss = nn.functional.cross_entropy(model(x_train[rows]), labels[:800][rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(epoch, loss.item())
model.eval()
with torch.no_grad():
    right = model(x_test).argmax(1) == labels[800:]  # <- here
print(right.float().mean().item())
