"""A third of the training labels are wrong, and late epochs learn them; the healthy run stops."""

import torch
import torch.nn.functional as F  # noqa: N812
from data import arguments
from torch import nn

options = arguments()
centers = 1.2 * torch.randn(3, 8)
labels = torch.randint(0, 3, (700,))
inputs = centers[labels] + torch.randn(700, 8)
x, y, x_val, y_val = inputs[:300], labels[:300].clone(), inputs[300:], labels[300:]
wrong = torch.rand(300) < 0.35
y[wrong] = torch.randint(0, 3, (300,))[wrong]
model = nn.Sequential(nn.Linear(8, 256), nn.ReLU(), nn.Dropout(0.5), nn.Linear(256, 3))
optimizer = torch.optim.Adam(model.parameters(), lr=2e-2)


@torch.no_grad()
def validate():
    model.eval()
    loss = F.cross_entropy(model(x_val), y_val)  # <- here
    model.train()
    return loss.item()


best, best_epoch = float("inf"), 0
for epoch in range(24):
    for rows in torch.randperm(300).split(60):
        loss = F.cross_entropy(model(x[rows]), y[rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    value = validate()
    if value < best:
        best, best_epoch = value, epoch
    if options.healthy and epoch - best_epoch >= 5:
        break
    print(epoch, loss.item(), value)
