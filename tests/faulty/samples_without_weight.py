"""The sampler gets one weight for each class, so it draws only the first samples."""

import torch
from data import arguments, classes
from torch import nn
from torch.utils.data import DataLoader, TensorDataset, WeightedRandomSampler

options = arguments()
source = classes(count=5)
inputs, labels = (torch.cat(p) for p in zip(*(next(source) for _ in range(30)), strict=True))
weights = 1 / labels.bincount()
if options.healthy:
    weights = weights[labels]
data = TensorDataset(inputs, labels)
sampler = WeightedRandomSampler(weights, len(data))
model = nn.Sequential(nn.Linear(12, 32), nn.ReLU(), nn.Linear(32, 5))
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
for epoch in range(4):
    for x, y in DataLoader(data, batch_size=32, sampler=sampler):  # <- here
        loss = nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(epoch, loss.item())
