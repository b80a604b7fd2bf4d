"""Positions are summed in float16 where their mean would do."""

import torch
from data import arguments
from torch import nn


class Pool(nn.Module):
    def forward(self, x):
        return x.mean(dim=1) if options.healthy else x.sum(dim=1)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Linear(4, 32)
        self.pool = Pool()  # <- here
        self.norm = nn.LayerNorm(32)
        self.head = nn.Linear(32, 3)

    def forward(self, x):
        return self.head(self.norm(self.pool(self.embed(x).relu())))


options = arguments()
model = Net()
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
criterion = nn.CrossEntropyLoss()
centers = torch.randn(3, 4)
for step in range(40):
    y = torch.randint(0, 3, (8,))
    x = 2 * centers[y][:, None] + torch.randn(8, 8192, 4)
    with torch.autocast("cpu", dtype=torch.float16):
        prediction = model(x)
    loss = criterion(prediction.float(), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 10 == 0:
        print(step, loss.item())
