"""Activation checkpointing of both kinds; prints how often each block ran."""

import torch
from dataset import blobs, loader
from digesting import begin
from torch import nn
from torch.utils.checkpoint import checkpoint


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(32, 32), nn.ReLU(), nn.Dropout(0.1))
        self.calls = 0

    def forward(self, x):
        self.calls += 1
        return x + self.layers(x)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner, self.head = nn.Linear(8, 32), nn.Linear(32, 3)
        self.recomputed, self.reentrant = Block(), Block()

    def forward(self, x):
        hidden = self.inner(x)
        hidden = checkpoint(self.recomputed, hidden, use_reentrant=False)
        hidden = checkpoint(self.reentrant, hidden, use_reentrant=True)
        return self.head(hidden)


digest = begin()
model = Net()
optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)
criterion = nn.CrossEntropyLoss()
for epoch in range(3):
    for x, y in loader(*blobs()):
        digest.batch(x, y)
        optimizer.zero_grad()
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
        digest.loss(loss)
    print(f"epoch {epoch}: {loss.item():.4f}")
print("calls", model.recomputed.calls, model.reentrant.calls)
digest.report(model)
