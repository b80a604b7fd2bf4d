"""The file is grouped by class, and the loader does not shuffle."""

import torch
from data import arguments, classes
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

options = arguments()
source = classes(count=4, spread=1.5)
inputs, labels = (torch.cat(p) for p in zip(*(next(source) for _ in range(40)), strict=True))
order = labels.argsort()
data = TensorDataset(inputs[order], labels[order])
model = nn.Sequential(nn.Linear(12, 32), nn.ReLU(), nn.Linear(32, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
criterion = nn.CrossEntropyLoss()
for epoch in range(5):
    for x, y in DataLoader(data, batch_size=32, shuffle=options.healthy):
        optimizer.zero_grad()
        loss = criterion(model(x), y)  # <- here
        loss.backward()
        optimizer.step()
    print(epoch, loss.item())
