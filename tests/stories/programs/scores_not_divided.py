"""An encoder whose attention does not divide its scores by the square root of the width."""

import sys

import torch
from torch import nn
from torch.nn import functional

torch.manual_seed(0)
torch.set_num_threads(1)
LENGTH, WIDTH = 16, 64
scale = WIDTH**-0.5 if "--healthy" in sys.argv else 1.0


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.take = nn.Linear(6, WIDTH)
        self.places = nn.Parameter(torch.randn(LENGTH, WIDTH))
        self.norm = nn.LayerNorm(WIDTH)
        self.query, self.key, self.value = (nn.Linear(WIDTH, WIDTH) for _ in range(3))
        for layer in (self.query, self.key):
            nn.init.xavier_normal_(layer.weight)
        self.head = nn.Linear(WIDTH, 3)

    def forward(self, x):
        h = self.norm(self.take(x) + self.places)
        scores = torch.einsum("bqd,bkd->bqk", self.query(h), self.key(h)) * scale
        mixed = torch.einsum("bqk,bkd->bqd", scores.softmax(-1), self.value(h))
        return self.head((h + mixed).mean(1))


centers = torch.randn(3, LENGTH, 6)
model = Encoder()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
for _ in range(60):
    y = torch.randint(0, 3, (32,))
    x = 0.5 * centers[y] + torch.randn(32, LENGTH, 6)
    loss = functional.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()  # <- here
    optimizer.step()
