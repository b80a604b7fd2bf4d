"""A sigmoid that is exactly 1 for one sample, and the logarithm of what is left.

Operation torch.log, row 11, step 157. A DataLoader in order, at module level.
"""

import torch
from telling import Telling
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)
torch.manual_seed(0)
features = torch.randn(3200, 8)
labels = (features[:, :1] > 0).float()
features[157 * 16 + 11] *= 400.0  # a sensor that was read in other units
features[157 * 16 + 11, 0] = 900.0

model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
tell = Telling(model)
for step, (x, y) in enumerate(DataLoader(TensorDataset(features, labels), batch_size=16)):
    if step == 165:
        break
    tell(step)
    p = torch.sigmoid(model(x))
    loss = -(y * torch.log(p) + (1 - y) * torch.log(1 - p)).mean()  # <- here
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
