"""bfloat16 autocast on the CPU with float32 weights."""

import torch
from _common import digits, seeded
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

options = seeded(epochs=6)
x, y, x_test, y_test = digits()
loader = DataLoader(TensorDataset(x, y), batch_size=64, shuffle=True)
model = nn.Sequential(nn.Linear(64, 128), nn.GELU(), nn.LayerNorm(128), nn.Linear(128, 10))
optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
for epoch in range(options.epochs):
    for rows, labels in loader:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            logits = model(rows)
            loss = nn.functional.cross_entropy(logits, labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16):
        accuracy = (model(x_test).argmax(1) == y_test).float().mean().item()
    print(f"epoch {epoch}: {accuracy:.3f}")
