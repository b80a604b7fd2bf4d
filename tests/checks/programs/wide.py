"""Each row of a batch needs about 2 MB."""

import torch
from torch import nn

torch.manual_seed(0)
x, y = torch.randn(160, 64), torch.randint(2, (160,))
model = nn.Sequential(
    nn.Linear(64, 64_000), nn.ReLU(), nn.Dropout(0.1), nn.ReLU(), nn.Linear(64_000, 2)
)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
for _ in range(10):
    for rows in range(0, 160, 16):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x[rows : rows + 16]), y[rows : rows + 16])
        loss.backward()
        optimizer.step()
