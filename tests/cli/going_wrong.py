"""Trains well, then badly once a file exists, until another file ends it."""

import sys
import time
from pathlib import Path

import torch
from torch import nn

bad, stop = Path(sys.argv[1]), Path(sys.argv[2])
torch.manual_seed(0)
torch.set_num_threads(1)
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
inputs, targets = torch.randn(16, 4), torch.randn(16, 1)
while not stop.exists():
    loss = nn.functional.mse_loss(model(inputs), targets)
    if bad.exists():
        loss = loss * float("inf")
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    time.sleep(0.005)  # as for data: other processes of the test want the machine, too
