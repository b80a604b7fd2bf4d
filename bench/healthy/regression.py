"""Regression with SGD, momentum and a step schedule; targets standardised."""

import torch
from _common import seeded
from sklearn.datasets import load_diabetes
from torch import nn
from torch.utils.data import DataLoader, TensorDataset, random_split

options = seeded(epochs=30)
data = load_diabetes()
x = torch.tensor(data.data, dtype=torch.float32)
y = torch.tensor(data.target, dtype=torch.float32).unsqueeze(1)
x = (x - x.mean(0)) / x.std(0)
y = (y - y.mean()) / y.std()
train_set, val_set = random_split(TensorDataset(x, y), [360, len(x) - 360])
train = DataLoader(train_set, batch_size=32, shuffle=True)
val = DataLoader(val_set, batch_size=128)

model = nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Dropout(0.1), nn.Linear(32, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, weight_decay=1e-3)
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=10, gamma=0.3)
mse = nn.MSELoss()
for epoch in range(options.epochs):
    model.train()
    for rows, targets in train:
        optimizer.zero_grad()
        loss = mse(model(rows), targets)
        loss.backward()
        optimizer.step()
    scheduler.step()
    model.eval()
    with torch.no_grad():
        error = sum(mse(model(r), t).item() * len(r) for r, t in val) / len(val_set)
    if epoch % 5 == 4:
        print(f"epoch {epoch}: val mse {error:.3f}")
