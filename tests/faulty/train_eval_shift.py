"""The training data are standardized, the test data are not."""

import torch
from data import arguments, classes
from torch import nn

options = arguments()
source = classes(count=3)
inputs, labels = (torch.cat(p) for p in zip(*(next(source) for _ in range(30)), strict=True))
inputs = 40 + 25 * inputs
train, test = slice(0, 800), slice(800, None)
mean, std = inputs[train].mean(0), inputs[train].std(0)
x_train, x_test = (inputs[train] - mean) / std, inputs[test]
if options.healthy:
    x_test = (x_test - mean) / std
model = nn.Sequential(nn.Linear(12, 32), nn.ReLU(), nn.Linear(32, 3))
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
for epoch in range(4):
    model.train()
    for rows in torch.randperm(800).split(32):
        loss = nn.functional.cross_entropy(model(x_train[rows]), labels[train][rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(epoch, loss.item())
model.eval()
with torch.no_grad():
    right = model(x_test).argmax(1) == labels[test]  # <- here
print(right.float().mean().item())
