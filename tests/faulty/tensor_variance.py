"""A branch of the model gets columns in another unit: a thousandth of the intended values."""

import torch
from data import arguments, classes
from torch import nn


class TwoBranches(nn.Module):
    def __init__(self):
        super().__init__()
        self.context = nn.Identity()  # <- here
        self.body = nn.Linear(12, 32)
        self.head = nn.Linear(36, 4)

    def forward(self, x):
        context = self.context(x[:, 12:])
        hidden = torch.relu(self.body(x[:, :12]))
        return self.head(torch.cat([hidden, context], dim=1))


options = arguments()
model = TwoBranches()
optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
criterion = nn.CrossEntropyLoss()
batches = classes()
for step in range(120):
    x, y = next(batches)
    context = torch.randn(32, 4) * (1.0 if options.healthy else 1e-3)
    loss = criterion(model(torch.cat([x, context], dim=1)), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 20 == 0:
        print(step, loss.item())
