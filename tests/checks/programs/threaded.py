"""Trains a classifier in a thread of its own."""

from __future__ import annotations

import threading

import torch
from torch import nn


def train() -> None:
    torch.manual_seed(0)
    x = torch.randn(64, 6)
    y = (x[:, 0] > 0).long()
    model = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 2))
    optimizer = torch.optim.Adam(model.parameters(), 0.02)
    for _ in range(400):
        rows = torch.randperm(64)
        loss = nn.functional.cross_entropy(model(x[rows]), y[rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


if __name__ == "__main__":
    worker = threading.Thread(target=train)
    worker.start()
    worker.join()
