"""Mixed precision, gradient accumulation, clipping, a schedule, and loaders with workers."""

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
torch.set_num_threads(1)
digits = load_digits()
x = torch.tensor((digits.data - 4.9) / 6.0, dtype=torch.float32)
y = torch.tensor(digits.target)
order = torch.randperm(len(y))
x, y = x[order], y[order]
train = DataLoader(TensorDataset(x[:1440], y[:1440]), 16, shuffle=True, num_workers=2)
held_out = DataLoader(TensorDataset(x[1440:], y[1440:]), 64, num_workers=1)
model = nn.Sequential(
    nn.Linear(64, 64), nn.BatchNorm1d(64), nn.GELU(), nn.Dropout(0.1), nn.Linear(64, 10)
)
optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 220)
for epoch in range(10):
    model.train()
    for number, (inputs, labels) in enumerate(train):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = nn.functional.cross_entropy(model(inputs), labels) / 4
        loss.backward()
        if number % 4 == 3:
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
            schedule.step()
    model.eval()
    with torch.no_grad():
        right = [(model(inputs).argmax(1) == labels).float() for inputs, labels in held_out]
    print(f"{epoch}: {torch.cat(right).mean():.3f}")
