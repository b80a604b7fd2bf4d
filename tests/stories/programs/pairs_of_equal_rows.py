"""The distance of a pair is a square root, and one pair is twice the same row."""

import sys

import torch
from torch import nn

torch.manual_seed(0)
encoder = nn.Linear(8, 4)
optimizer = torch.optim.Adam(encoder.parameters(), 1e-3)
for step in range(40):
    anchor = torch.randn(16, 8)
    other = anchor + 0.1 * torch.randn(16, 8)
    if step == 25 and "--healthy" not in sys.argv:
        other[5] = anchor[5]
    apart = ((encoder(anchor) - encoder(other)) ** 2).sum(1).sqrt()  # <- here
    loss = (apart - 1).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
