"""A gradient scaler skips the step before the bad one."""

import torch
from common import BAD, STEPS, Log, batch
from torch import nn

torch.manual_seed(0)
generator = torch.Generator().manual_seed(1)
model = nn.Sequential(Log(), nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 3))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
for step in range(STEPS):
    x, y = batch(step, generator)
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(x), y)
    if step == BAD - 1:
        loss = loss * 1e38
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
