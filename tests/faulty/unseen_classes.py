"""Rows that are sorted by class are split without shuffling."""

import torch
from data import arguments, classes
from torch import nn

options = arguments()
source = classes(count=5)
inputs, labels = (torch.cat(p) for p in zip(*(next(source) for _ in range(30)), strict=True))
order = torch.randperm(len(labels)) if options.healthy else labels.argsort()
inputs, labels = inputs[order], labels[order]
x_train, y_train, x_test, y_test = inputs[:760], labels[:760], inputs[760:], labels[760:]
model = nn.Sequential(nn.Linear(12, 32), nn.ReLU(), nn.Linear(32, 5))
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
for epoch in range(6):
    model.train()
    for rows in torch.randperm(760).split(32):
        loss = nn.functional.cross_entropy(model(x_train[rows]), y_train[rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    model.eval()
    with torch.no_grad():
        tested = nn.functional.cross_entropy(model(x_test), y_test)  # <- here
    print(epoch, loss.item(), tested.item())
