"""Mixed precision in float16 with a loss scale that overflows and recovers."""

import torch
from dataset import blobs, loader
from digesting import begin
from torch import nn

digest = begin()
model = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 3))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
scaler = torch.amp.GradScaler("cpu", init_scale=2.0**20, growth_interval=40)
criterion = nn.CrossEntropyLoss()
skipped = 0
for epoch in range(4):
    for x, y in loader(*blobs()):
        digest.batch(x, y)
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            loss = criterion(model(x), y)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        before = scaler.get_scale()
        scaler.step(optimizer)
        scaler.update()
        skipped += scaler.get_scale() < before
        digest.loss(loss)
    print(f"epoch {epoch}: {loss.item():.4f} scale {scaler.get_scale():g} skipped {skipped}")
digest.report(model)
