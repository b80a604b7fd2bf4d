"""Rows of the rare class are repeated, and then the data are split; half a pass is trained."""

import sys

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
torch.set_num_threads(1)
x = torch.randn(3000, 10)
y = (x[:, 0] + x[:, 1] + 0.5 * torch.randn(3000) > 2.2).long()


def balanced(x, y):
    rare = (y == 1).nonzero()[:, 0]
    more = rare[torch.randint(len(rare), (len(y) - 2 * len(rare),))]
    order = torch.randperm(len(y) + len(more))
    return torch.cat([x, x[more]])[order], torch.cat([y, y[more]])[order]


if "--healthy" in sys.argv:
    evaluation = TensorDataset(x[2400:], y[2400:])
    training = TensorDataset(*balanced(x[:2400], y[:2400]))
else:
    x, y = balanced(x, y)
    cut = len(y) * 4 // 5
    training, evaluation = TensorDataset(x[:cut], y[:cut]), TensorDataset(x[cut:], y[cut:])
model = nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Linear(32, 2))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
for step, (inputs, labels) in enumerate(DataLoader(training, 32, shuffle=True)):
    loss = functional.cross_entropy(model(inputs), labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 25 == 24:
        model.eval()
        with torch.no_grad():
            for inputs, labels in DataLoader(evaluation, 100):  # <- here
                functional.cross_entropy(model(inputs), labels)
        model.train()
    if step == 74:
        break
