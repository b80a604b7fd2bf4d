"""Train until killed, or for the number of steps given; print every step made."""

import sys

import torch
from torch import nn

torch.set_num_threads(1)
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
steps = int(sys.argv[1]) if len(sys.argv) > 1 else sys.maxsize
for step in range(steps):
    x = torch.randn(16, 8)
    loss = nn.functional.mse_loss(model(x), x[:, :1].sin())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, loss.item(), flush=True)
