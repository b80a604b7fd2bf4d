"""Run with `python -W error`: any warning ends the program."""

import sys

import torch
from dataset import blobs, loader
from digesting import begin
from torch import nn

assert "error" in sys.warnoptions, "run this program with python -W error"
digest = begin()
model = nn.Sequential(nn.Linear(8, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Linear(32, 3))
compiled = torch.compile(model, backend="eager")
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
schedule = torch.optim.lr_scheduler.StepLR(optimizer, step_size=2)
for epoch in range(4):
    for x, y in loader(*blobs()):
        digest.batch(x, y)
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(compiled(x), y)
        loss.backward()
        optimizer.step()
        digest.loss(loss)
    schedule.step()
    print(f"epoch {epoch}: {loss.item():.4f}")
digest.report(model)
