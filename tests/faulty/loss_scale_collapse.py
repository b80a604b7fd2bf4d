"""From step 20 on, the loss has a deviation of equal outputs: its gradient is NaN at any scale."""

import torch
from data import arguments, curve
from torch import nn

options = arguments()
model = nn.Sequential(nn.Linear(6, 32), nn.Tanh(), nn.Linear(32, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
scaler = torch.amp.GradScaler("cpu")
for step, (x, y) in zip(range(80), curve(), strict=False):
    with torch.autocast("cpu", dtype=torch.float16):
        loss = (model(x).float() - y).square().mean()  # <- here
        if step >= 20:
            noisy = x[:1].repeat(8, 1) + (0.1 * torch.randn(8, 6) if options.healthy else 0)
            loss = loss + 0.01 * model(noisy).float().var(dim=0).sqrt().mean()  # <- here
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    if step % 20 == 0:
        print(step, loss.item())
