"""A compiled model: the traced graph, run by eager kernels."""

import torch
from dataset import blobs, loader
from digesting import begin
from torch import nn

digest = begin()
plain = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Dropout(0.1), nn.Linear(32, 3))
model = torch.compile(plain, backend="aot_eager")
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
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
digest.report(plain)
