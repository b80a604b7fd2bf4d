"""A label that must not be negative is: the loss takes its square root.

Operation torch.sqrt, row 9, step 150. The rows of a batch are drawn with torch.randint.
"""

import torch
from telling import Telling
from torch import nn

torch.set_num_threads(1)
torch.manual_seed(5)
X = torch.randn(4000, 7)
Y = X.abs().sum(1)
Y[2941] = -1.0  # "unknown"
model = nn.Sequential(nn.Linear(7, 20), nn.ReLU(), nn.Linear(20, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
tell = Telling(model)
for step in range(160):
    tell(step)
    rows = torch.randint(0, 2900, (25,))
    if step == 150:
        rows[9] = 2941
    predicted = model(X[rows]).squeeze(1)
    loss = ((predicted - torch.sqrt(Y[rows])) ** 2).mean()  # <- here
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
