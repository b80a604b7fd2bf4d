"""The validation loader draws its rows with the weighted sampler that balances the training."""

import torch
from data import arguments, classes
from torch import nn
from torch.utils.data import DataLoader, TensorDataset, WeightedRandomSampler

options = arguments()
source = classes(count=2, spread=2.0)
x, y = (torch.cat(parts) for parts in zip(*(next(source) for _ in range(40)), strict=True))
kept = (y == 0) | (torch.rand(len(y)) < 0.25)
x, y = x[kept], y[kept]
train, valid = TensorDataset(x[200:], y[200:]), TensorDataset(x[:200], y[:200])


def balanced(data):
    labels = data.tensors[1]
    return WeightedRandomSampler(1 / labels.bincount()[labels], len(data))


model = nn.Sequential(nn.Linear(12, 32), nn.ReLU(), nn.Linear(32, 2))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
train_loader = DataLoader(train, batch_size=32, sampler=balanced(train))
valid_loader = DataLoader(
    valid, batch_size=32, sampler=None if options.healthy else balanced(valid)
)
for epoch in range(6):
    model.train()
    for inputs, labels in train_loader:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(inputs), labels)
        loss.backward()
        optimizer.step()
    model.eval()
    right = 0
    with torch.no_grad():
        for inputs, labels in valid_loader:  # <- here
            right += (model(inputs).argmax(dim=1) == labels).sum().item()
    print(epoch, loss.item(), right / len(valid))
