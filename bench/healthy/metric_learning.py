"""Triplet loss with semi-hard triplets chosen inside the batch."""

import torch
import torch.nn.functional as F
from _common import digits, seeded
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

options = seeded(epochs=8)
x, y, x_test, y_test = digits()
embed = nn.Sequential(nn.Linear(64, 96), nn.ReLU(), nn.Linear(96, 24))
optimizer = torch.optim.Adam(embed.parameters(), lr=1e-3)
triplet = nn.TripletMarginLoss(margin=0.3)
loader = DataLoader(TensorDataset(x, y), batch_size=100, shuffle=True)
for epoch in range(options.epochs):
    for rows, labels in loader:
        z = F.normalize(embed(rows), dim=1)
        with torch.no_grad():
            distance = torch.cdist(z, z)
            same = labels[:, None] == labels[None]
            positive = distance.masked_fill(~same, -1).argmax(1)
            negative = distance.masked_fill(same, 9).argmin(1)
        loss = triplet(z, z[positive], z[negative])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(f"epoch {epoch}: {loss.item():.4f}")
