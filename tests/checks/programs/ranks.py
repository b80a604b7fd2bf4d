"""Trains a classifier with batch normalization on the ranks of a distributed job."""

from __future__ import annotations

import torch
from torch import distributed, nn
from torch.nn.parallel import DistributedDataParallel

distributed.init_process_group("gloo")
torch.manual_seed(distributed.get_rank())
x = torch.randn(64, 6)
y = (x[:, 0] > 0).long()
layers = nn.Sequential(nn.Linear(6, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 2))
model = DistributedDataParallel(layers)
optimizer = torch.optim.Adam(model.parameters(), 0.02)
for _ in range(400):
    rows = torch.randperm(64)
    loss = nn.functional.cross_entropy(model(x[rows]), y[rows])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
distributed.destroy_process_group()
