"""Trains for one step, and then waits for ever for the next batch."""

from __future__ import annotations

import threading

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

READ = 8


class Rows(Dataset[tuple[torch.Tensor, int]]):
    """Rows of which all but the first cannot be read."""

    def __len__(self) -> int:
        return 80

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        if index >= READ:
            threading.Event().wait()
        return torch.randn(6), index % 2


torch.manual_seed(0)
model = nn.Linear(6, 2)
optimizer = torch.optim.Adam(model.parameters(), 0.02)
for x, y in DataLoader(Rows(), batch_size=READ):
    loss = nn.functional.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
