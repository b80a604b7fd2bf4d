"""A long training run saves no weights; the healthy program saves them every 50 steps."""

import tempfile

import torch
import torch.nn.functional as F  # noqa: N812
from data import arguments, classes
from torch import nn

options = arguments()
batches = classes()
model = nn.Sequential(nn.Linear(12, 32), nn.ReLU(), nn.Linear(32, 4))
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)

for step in range(150):
    inputs, labels = next(batches)
    loss = F.cross_entropy(model(inputs), labels)  # <- here
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if options.healthy and step % 50 == 0:
        with tempfile.TemporaryFile() as file:
            torch.save(model.state_dict(), file)
