"""Trains for three steps, and then waits for ever."""

from __future__ import annotations

import threading

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Linear(6, 2)
optimizer = torch.optim.Adam(model.parameters(), 0.02)
for _ in range(4):
    loss = nn.functional.cross_entropy(model(torch.randn(8, 6)), torch.randint(2, (8,)))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
threading.Event().wait()
