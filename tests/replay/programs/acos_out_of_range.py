"""An angle from a cosine that calibration pushes over 1 for two equal vectors.

Operation torch.acos, row 1, step 123. Dropout, and two micro-batches a step.
"""

import torch
from telling import Telling
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def angle(a, b):
    """Return the angle (rows,) between vectors (rows, width)."""
    cosine = nn.functional.cosine_similarity(a, b, dim=1) * 1.0005
    return torch.acos(cosine)  # <- here


torch.set_num_threads(1)
torch.manual_seed(13)
a = torch.randn(260 * 8, 6)
b = torch.randn(260 * 8, 6)
b[247 * 8 + 1] = a[247 * 8 + 1]
model = nn.Sequential(nn.Linear(12, 16), nn.ReLU(), nn.Dropout(0.2), nn.Linear(16, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
tell = Telling(model)
for number, (left, right) in enumerate(DataLoader(TensorDataset(a, b), batch_size=8)):
    if number % 2 == 0:
        tell(number // 2)
    predicted = model(torch.cat([left, right], dim=1)).squeeze(1)
    loss = (predicted - angle(left, right)).abs().mean() / 2
    loss.backward()
    if number % 2:
        optimizer.step()
        optimizer.zero_grad()
