"""A model of sequences that adds a position vector to each row instead of each position."""

import torch
import torch.nn.functional as F  # noqa: N812
from data import arguments
from torch import nn

options = arguments()


class Positions(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("table", 0.3 * torch.randn(64, 1, 16))

    def forward(self, x):
        if options.healthy:
            return x + self.table[: x.size(1), 0]
        return x + self.table[: x.size(0)]


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(10, 16)
        self.positions = Positions()  # <- here
        self.layer = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True)
        self.head = nn.Linear(16, 10)

    def forward(self, x):
        return self.head(self.layer(self.positions(self.embedding(x))).mean(1))


model = Model()
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
for step in range(120):
    x = torch.randint(0, 10, (32, 12))
    loss = F.cross_entropy(model(x), x[:, 0])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 40 == 0:
        print(step, loss.item())
