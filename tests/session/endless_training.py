"""Trains until it is told to stop; then writes down what its gradients were."""

import sys
from collections import deque
from pathlib import Path

import numpy as np
import torch
from torch import nn

stop, kept = Path(sys.argv[1]), Path(sys.argv[2])
torch.manual_seed(0)
torch.set_num_threads(1)
model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
inputs, targets = torch.randn(16, 4), torch.randn(16, 1)
gradients: deque[tuple[int, np.ndarray]] = deque(maxlen=50_000)
step = 0
while not stop.exists():
    loss = nn.functional.mse_loss(model(inputs), targets)
    optimizer.zero_grad()
    loss.backward()
    gradients.append((step, model[0].weight.grad.numpy().copy()))
    optimizer.step()
    step += 1
np.savez(
    kept, steps=np.array([s for s, _ in gradients]), values=np.stack([g for _, g in gradients])
)
