"""Train a classifier whose rows are weighted by a logarithm; one row has a length of -1.

`--running` divides by a running mean, so that one bad batch spoils all later ones.
"""

import sys

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
torch.set_num_threads(1)
rows = torch.randn(960, 12)
labels = (rows[:, 0] + rows[:, 1] > 0).long()
lengths = torch.randint(2, 50, (960,)).float()
lengths[304] = -1.0  # a length that is not known
model = nn.Sequential(nn.Linear(12, 32), nn.ReLU(), nn.Linear(32, 2))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
loader = DataLoader(TensorDataset(rows, labels, lengths), batch_size=16, shuffle=True)
mean = torch.tensor(3.0)
for _ in range(3):
    for inputs, targets, length in loader:
        weight = torch.log(length)
        running = 0.99 * mean + 0.01 * weight.mean()
        mean = running if "--running" in sys.argv else weight.mean()
        loss = (
            functional.cross_entropy(model(inputs), targets, reduction="none") * weight / mean
        ).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
