"""Indices from `torch.randint`, at module level; `F.cross_entropy` in another function."""

import torch
import torch.nn.functional as F  # noqa: N812  # as everybody does
from torch import nn

torch.manual_seed(4)
X, Y = torch.randn(200, 5), torch.randint(0, 4, (200,))
model = nn.Sequential(nn.Linear(5, 16), nn.GELU(), nn.Linear(16, 4))
optimizer = torch.optim.Adam(model.parameters())


def batch():
    index = torch.randint(0, len(X), (20,))
    return X[index], Y[index]


for _ in range(12):
    xb, yb = batch()
    loss = F.cross_entropy(model(xb), yb)
    optimizer.zero_grad(set_to_none=False)
    loss.backward()
    optimizer.step()
