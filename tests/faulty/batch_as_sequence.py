"""A recurrent layer without `batch_first` that gets the batch along axis 0."""

import torch
import torch.nn.functional as F  # noqa: N812
from data import arguments
from torch import nn

options = arguments()


class Reader(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = nn.GRU(3, 24, batch_first=options.healthy)  # <- here
        self.head = nn.Linear(24, 2)

    def forward(self, x):
        return self.head(self.rnn(x)[0][:, -1])


model = Reader()
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
x = torch.randn(600, 10, 3)
y = (x[:, :, 0].sum(1) > 0).long()
for step in range(90):
    rows = torch.randint(0, 600, (32,))
    optimizer.zero_grad()
    loss = F.cross_entropy(model(x[rows]), y[rows])
    loss.backward()
    optimizer.step()
    if step % 50 == 0:
        print(step, loss.item())
