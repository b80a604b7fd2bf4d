"""Tabular data with categories: embeddings and numbers, binary target, rare positives."""

import torch
from _common import seeded
from torch import nn

options = seeded(epochs=6)
N = 3000
shop = torch.randint(0, 30, (N,))
weekday = torch.randint(0, 7, (N,))
numbers = torch.randn(N, 5)
quality = torch.randn(30, generator=torch.Generator().manual_seed(3))
score = quality[shop] + 0.8 * numbers[:, 0] - 0.5 * numbers[:, 1] + (weekday >= 5) - 1.4
bought = (torch.rand(N) < torch.sigmoid(2 * score)).float()
cut = int(0.8 * N)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.shop, self.weekday = nn.Embedding(30, 8), nn.Embedding(7, 3)
        self.layers = nn.Sequential(
            nn.Linear(16, 64), nn.BatchNorm1d(64), nn.ReLU(), nn.Dropout(0.1), nn.Linear(64, 1)
        )

    def forward(self, shop, weekday, numbers):
        row = torch.cat([self.shop(shop), self.weekday(weekday), numbers], dim=1)
        return self.layers(row).squeeze(1)


model = Net()
optimizer = torch.optim.Adagrad(model.parameters(), lr=0.03)
criterion = nn.BCEWithLogitsLoss()
for epoch in range(options.epochs):
    model.train()
    for rows in torch.randperm(cut).split(64):
        loss = criterion(model(shop[rows], weekday[rows], numbers[rows]), bought[rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    model.eval()
    with torch.no_grad():
        logits = model(shop[cut:], weekday[cut:], numbers[cut:])
        val = criterion(logits, bought[cut:]).item()
    print(f"epoch {epoch}: val {val:.3f}")
