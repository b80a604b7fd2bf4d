"""A regression on a table, whose targets may be in other units."""

import torch
import torch.nn.functional as F  # noqa: N812
from _start import batches, options, score
from torch import nn

o = options(targets=1.0, placeholder=0.0)
generator = torch.Generator().manual_seed(5)
x = torch.randn(1000, 8, generator=generator)
y = torch.sin(x[:, 0]) + 0.5 * x[:, 1] * x[:, 2] + 0.1 * torch.randn(1000, generator=generator)
y = (y - y.mean()) / y.std() * o.targets
x = torch.where(torch.rand(x.shape) < o.placeholder, -999.0, x) if o.placeholder else x
model = nn.Sequential(nn.Linear(8, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
chosen = batches(800, 40)
for step in range(400):
    batch = next(chosen)
    loss = F.mse_loss(model(x[batch])[:, 0], y[batch])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 40 == 39:
        with torch.no_grad():
            error = F.mse_loss(model(x[800:])[:, 0], y[800:])
            print(step, loss.item(), error.item())
score(error / y.var())
