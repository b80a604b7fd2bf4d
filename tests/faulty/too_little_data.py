"""Four classes, and ten samples of each."""

import torch
from data import arguments, classes
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

options = arguments()
source = classes(count=4, spread=1.5)
inputs, labels = (torch.cat(p) for p in zip(*(next(source) for _ in range(20)), strict=True))
kept = slice(None) if options.healthy else slice(0, 40)
data = TensorDataset(inputs[kept], labels[kept])
model = nn.Sequential(nn.Linear(12, 16), nn.ReLU(), nn.Linear(16, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.02)
criterion = nn.CrossEntropyLoss()
for epoch in range(30 if not options.healthy else 3):
    for x, y in DataLoader(data, batch_size=20, shuffle=True):  # <- here
        optimizer.zero_grad()
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
    if epoch % 10 == 0:
        print(epoch, loss.item())
