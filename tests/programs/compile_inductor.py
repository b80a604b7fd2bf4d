"""A compiled model with generated kernels; prints a message and ends if there is no compiler."""

import shutil
import sys

if not any(shutil.which(name) for name in ("c++", "g++", "clang++")):
    print("skipped: no C++ compiler on PATH")
    sys.exit(0)

import torch
from dataset import curve, loader
from digesting import begin
from torch import nn

digest = begin()
plain = nn.Sequential(nn.Linear(4, 32), nn.Tanh(), nn.Linear(32, 1))
model = torch.compile(plain, fullgraph=True)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
criterion = nn.MSELoss()
for epoch in range(4):
    for x, y in loader(*curve()):
        digest.batch(x, y)
        optimizer.zero_grad()
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
        digest.loss(loss)
    print(f"epoch {epoch}: {loss.item():.4f}")
digest.report(plain)
