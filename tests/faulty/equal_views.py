"""Contrastive learning whose two views are copies of one augmented batch."""

import torch
import torch.nn.functional as F  # noqa: N812
from data import arguments, classes
from torch import nn


def augment(x):
    return x * (0.7 + 0.6 * torch.rand_like(x)) + 0.3 * torch.randn_like(x)


options = arguments()
encoder = nn.Sequential(nn.Linear(12, 64), nn.ReLU(), nn.Linear(64, 32))  # <- here
optimizer = torch.optim.Adam(encoder.parameters(), lr=1e-3)
for step, (x, _) in zip(range(200), classes(), strict=False):
    view = augment(x)
    other = augment(x) if options.healthy else view.clone()
    one, two = (F.normalize(encoder(v), dim=1) for v in (view, other))
    loss = F.cross_entropy(one @ two.t() / 0.2, torch.arange(32))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 50 == 0:
        print(step, loss.item())
