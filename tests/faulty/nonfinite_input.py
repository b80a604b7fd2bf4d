"""A table with one empty cell, which became NaN when it was read."""

import torch
from data import arguments, classes
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

options = arguments()
source = classes(count=3)
table, labels = (torch.cat(parts) for parts in zip(*(next(source) for _ in range(20)), strict=True))
table[7 * 32 + 5, 3] = float("nan")
if options.healthy:
    table = torch.nan_to_num(table)
model = nn.Sequential(nn.Linear(12, 32), nn.ReLU(), nn.Linear(32, 3))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
criterion = nn.CrossEntropyLoss()
for epoch in range(2):
    for x, y in DataLoader(TensorDataset(table, labels), batch_size=32):  # <- here
        optimizer.zero_grad()
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
    print(epoch, loss.item())
