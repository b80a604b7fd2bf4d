import torch
import torch.nn.functional as F
from _start import digits, loaders, start
from torch import nn

start()
model = nn.Sequential(
    nn.Linear(64, 64), nn.BatchNorm1d(64), nn.ReLU(), nn.Dropout(0.1), nn.Linear(64, 10)
)
optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
train, held_out = loaders(*digits(), batch=16, num_workers=2)
for epoch in range(10):
    model.train()
    for number, (x, y) in enumerate(train):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = F.cross_entropy(model(x), y) / 4
        loss.backward()
        if number % 4 == 3:
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
    model.eval()
    with torch.no_grad():
        right = [(model(x).argmax(1) == y).float().mean().item() for x, y in held_out]
    print(f"{epoch}: {loss.item():.3f} {sum(right) / len(right):.3f}")
