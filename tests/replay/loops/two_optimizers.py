"""Two optimizers that step together; one batch is not finite."""

import torch
from torch import nn

torch.manual_seed(14)
model = nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 1))
optimizers = [
    torch.optim.SGD(model[0].parameters(), lr=0.1, momentum=0.9),
    torch.optim.Adam(model[2].parameters(), lr=0.05),
]
for step in range(8):
    x, y = torch.randn(8, 4), torch.randn(8, 1)
    if step == 5:
        x[3, 1] = float("nan")
    loss = nn.functional.mse_loss(model(x), y)
    loss.backward()
    for optimizer in optimizers:
        optimizer.step()
        optimizer.zero_grad()
