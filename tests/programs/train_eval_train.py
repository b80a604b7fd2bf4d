"""Training, evaluation with batch norm and dropout, prediction, and training again."""

import torch
from dataset import blobs, loader
from digesting import begin
from torch import nn

digest = begin()
x_all, y_all = blobs(rows=320)
train = loader(x_all[:256], y_all[:256])
validation = loader(x_all[256:], y_all[256:])
model = nn.Sequential(
    nn.Linear(8, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Dropout(0.2), nn.Linear(32, 3)
)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
criterion = nn.CrossEntropyLoss()
for epoch in range(5):
    model.train()
    for x, y in train:
        digest.batch(x, y)
        optimizer.zero_grad()
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
        digest.loss(loss)
    model.eval()
    with torch.no_grad():
        for x, y in validation:
            digest.batch(x, y)
            digest.loss(criterion(model(x), y))
        right = (model(x_all[256:]).argmax(1) == y_all[256:]).sum().item()
    print(f"epoch {epoch}: {right} of 64 right")
digest.report(model)
