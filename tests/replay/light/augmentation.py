"""NumPy and Python draw the augmentation of each batch."""

import random

import numpy as np
import torch
from common import STEPS, Log, batch
from torch import nn


class Augment(nn.Module):
    """Scales and shifts its input by numbers from two generators."""

    def forward(self, x):
        """Return a changed input in training."""
        return x * np.float32(np.random.uniform(0.9, 1.1)).item() + 0.01 * random.random()


random.seed(0)
np.random.seed(0)
torch.manual_seed(0)
generator = torch.Generator().manual_seed(1)
model = nn.Sequential(Augment(), Log(), nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 3))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
for step in range(STEPS):
    x, y = batch(step, generator)
    optimizer.zero_grad()
    nn.functional.cross_entropy(model(x), y).backward()
    optimizer.step()
