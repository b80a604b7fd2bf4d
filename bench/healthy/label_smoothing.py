"""Label smoothing, mixup and gradient accumulation in one classifier."""

import torch
from _common import digits, seeded
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

options = seeded(epochs=8)
ACCUMULATE = 2
x, y, x_test, y_test = digits()
loader = DataLoader(TensorDataset(x, y), batch_size=32, shuffle=True, drop_last=True)
model = nn.Sequential(nn.Linear(64, 128), nn.SiLU(), nn.Dropout(0.1), nn.Linear(128, 10))
optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
criterion = nn.CrossEntropyLoss(label_smoothing=0.1)
for epoch in range(options.epochs):
    model.train()
    for i, (rows, labels) in enumerate(loader):
        mix = torch.distributions.Beta(0.2, 0.2).sample().item()
        order = torch.randperm(len(rows))
        logits = model(mix * rows + (1 - mix) * rows[order])
        loss = mix * criterion(logits, labels) + (1 - mix) * criterion(logits, labels[order])
        (loss / ACCUMULATE).backward()
        if (i + 1) % ACCUMULATE == 0:
            optimizer.step()
            optimizer.zero_grad()
    optimizer.zero_grad()
    model.eval()
    with torch.no_grad():
        print(epoch, (model(x_test).argmax(1) == y_test).float().mean().item())
