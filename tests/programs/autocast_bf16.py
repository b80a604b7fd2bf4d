"""Mixed precision in bfloat16: the forward under autocast, weights in float32."""

import torch
from dataset import blobs, loader
from digesting import begin
from torch import nn

digest = begin()
model = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 3))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
criterion = nn.CrossEntropyLoss()
for epoch in range(3):
    for x, y in loader(*blobs()):
        digest.batch(x, y)
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
        digest.loss(loss)
    print(f"epoch {epoch}: {loss.item():.4f}")
digest.report(model)
