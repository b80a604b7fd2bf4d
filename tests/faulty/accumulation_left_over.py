"""The loop steps after every 8 of 21 batches, and clears the gradients of the last 5."""

import torch
from data import arguments, classes
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

options = arguments()
source = classes(count=4, spread=1.5)
x, y = (torch.cat(parts) for parts in zip(*(next(source) for _ in range(21)), strict=True))
loader = DataLoader(TensorDataset(x, y), batch_size=32, shuffle=True)
model = nn.Sequential(nn.Linear(12, 32), nn.ReLU(), nn.Linear(32, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
for epoch in range(8):
    optimizer.zero_grad()
    for i, (inputs, labels) in enumerate(loader):  # <- here
        loss = nn.functional.cross_entropy(model(inputs), labels)
        (loss / 8).backward()
        if (i + 1) % 8 == 0 or (options.healthy and i + 1 == len(loader)):
            optimizer.step()
            optimizer.zero_grad()
    print(epoch, loss.item())
