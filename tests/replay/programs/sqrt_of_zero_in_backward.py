"""The distance of two points that are the same: 0, but its slope is infinite.

Operation backward of torch.sqrt, row 13, step 144. The loss is finite. NumPy batches.
"""

import numpy as np
import torch
from telling import Telling
from torch import nn

torch.set_num_threads(1)
torch.manual_seed(10)
pairs = np.random.default_rng(10).normal(size=(150 * 18, 2, 5)).astype(np.float32)
pairs[144 * 18 + 13, 1] = pairs[144 * 18 + 13, 0]
model = nn.Sequential(nn.Linear(5, 16), nn.Tanh(), nn.Linear(16, 3))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
tell = Telling(model)
for step in range(150):
    tell(step)
    batch = torch.from_numpy(pairs[step * 18 : (step + 1) * 18])
    first, second = model(batch[:, 0]), model(batch[:, 1])
    apart = (batch[:, 0] - batch[:, 1]).abs().mean(1)
    distance = torch.sqrt(((first - second) ** 2).sum(1))  # <- here
    loss = (distance - apart).abs().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
