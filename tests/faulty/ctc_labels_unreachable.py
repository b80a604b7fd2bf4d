"""Letters are numbered from 0, the number of the blank."""

import torch
from data import arguments
from torch import nn
from torch.nn import functional

options = arguments()
shapes = 2 * torch.randn(4, 6)
model = nn.Sequential(nn.Linear(6, 32), nn.ReLU(), nn.Linear(32, 5))
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
for step in range(100):
    letters = torch.randint(0, 4, (16, 4))
    frames = torch.zeros(12, 16, 6)
    frames[1::3] = shapes[letters].transpose(0, 1)
    frames += 0.3 * torch.randn_like(frames)
    logs = model(frames).log_softmax(-1)
    targets = letters + 1 if options.healthy else letters
    loss = functional.ctc_loss(logs, targets, (12,) * 16, (4,) * 16)  # <- here
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 20 == 0:
        print(step, loss.item())
