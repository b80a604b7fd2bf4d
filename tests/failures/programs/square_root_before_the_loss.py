"""A square root of negative scores is NaN, two lines above the loss that refuses it."""

import torch
from torch import nn
from torch.nn import functional

torch.manual_seed(0)
x, y = torch.randn(32, 8), torch.ones(32, 1)
model = nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(3):
    scores = model(x)
    root = torch.sqrt(scores)
    p = torch.sigmoid(root)
    loss = functional.binary_cross_entropy(p, y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
