"""Weights are updated by hand, along the gradient and not against it."""

import sys

import torch
from torch import nn

torch.manual_seed(0)
rate = -0.1 if "--healthy" in sys.argv else 0.1
centers = torch.randn(6, 20)
model = nn.Sequential(nn.Linear(20, 32), nn.ReLU(), nn.Linear(32, 6))
for _ in range(150):
    y = torch.randint(0, 6, (64,))
    loss = nn.functional.cross_entropy(model(centers[y] + torch.randn(64, 20)), y)
    model.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 0.5)
    for p in model.parameters():
        p.data.add_(p.grad, alpha=rate)  # <- here
