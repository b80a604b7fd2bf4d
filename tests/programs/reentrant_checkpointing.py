"""Reentrant checkpointing in the script itself: the segments are called outside any module.

The segments have a batch norm, which counts how often it ran, and dropout, which draws.
"""

import torch
from dataset import blobs, loader
from digesting import begin
from torch import nn
from torch.utils.checkpoint import checkpoint, checkpoint_sequential


def block(width):
    return nn.Sequential(nn.Linear(width, width), nn.BatchNorm1d(width), nn.ReLU(), nn.Dropout(0.1))


digest = begin()
stem, head = nn.Linear(8, 32), nn.Linear(32, 3)
trunk = nn.Sequential(*(block(32) for _ in range(3)))
tail = block(32)
model = nn.ModuleList([stem, trunk, tail, head])
optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)
inputs, labels = blobs(rows=320)
for epoch in range(3):
    model.train()
    for x, y in loader(inputs[:256], labels[:256]):
        digest.batch(x, y)
        optimizer.zero_grad()
        hidden = checkpoint_sequential(trunk, 2, stem(x), use_reentrant=True)
        hidden = checkpoint(tail, hidden, use_reentrant=True)
        loss = nn.functional.cross_entropy(head(hidden), y)
        loss.backward()
        optimizer.step()
        digest.loss(loss)
    model.eval()
    with torch.no_grad():
        guess = head(tail(trunk(stem(inputs[256:])))).argmax(1)
        right = (guess == labels[256:]).float().mean()
    print(f"epoch {epoch}: {loss.item():.4f} {right.item():.4f}")
digest.report(model)
