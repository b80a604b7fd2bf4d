"""The rows in memory are normalized in place, again in every epoch."""

import torch
from data import arguments, classes
from torch import nn
from torch.utils.data import DataLoader, Dataset

options = arguments()
source = classes(count=4, spread=1.5)
inputs, labels = (torch.cat(p) for p in zip(*(next(source) for _ in range(20)), strict=True))


class Rows(Dataset):
    def __init__(self):
        self.inputs = inputs * 0.4 + 0.3

    def __len__(self):
        return len(labels)

    def __getitem__(self, index):
        row = self.inputs[index]
        row = row.clone() if options.healthy else row
        return row.sub_(0.3).div_(0.4), labels[index]


loader = DataLoader(Rows(), batch_size=32, shuffle=True)
model = nn.Sequential(nn.Linear(12, 32), nn.ReLU(), nn.Linear(32, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
for epoch in range(5):
    for x, y in loader:  # <- here
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
    print(epoch, loss.item())
