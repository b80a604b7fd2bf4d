"""Four micro-batches a step, the loss divided by four."""

import torch
from dataset import blobs, loader
from digesting import begin
from torch import nn

MICRO_BATCHES = 4
digest = begin()
model = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 3))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
criterion = nn.CrossEntropyLoss()
optimizer.zero_grad()
for _epoch in range(4):
    for count, (x, y) in enumerate(loader(*blobs(), batch_size=8), start=1):
        digest.batch(x, y)
        loss = criterion(model(x), y) / MICRO_BATCHES
        loss.backward()
        digest.loss(loss)
        if count % MICRO_BATCHES == 0:
            optimizer.step()
            optimizer.zero_grad()
print(f"last micro-batch {loss.item():.4f}")
digest.report(model)
