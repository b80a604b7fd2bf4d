"""A causal mask of floating-point zeros and ones: attention adds it to the scores."""

import torch
import torch.nn.functional as F  # noqa: N812
from data import arguments
from torch import nn

WORDS, LENGTH = 16, 12

options = arguments()


class Reader(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.project = nn.Embedding(WORDS, 32), nn.Linear(32, 96)
        self.head = nn.Linear(32, WORDS)
        mask = torch.ones(LENGTH, LENGTH).tril()
        self.register_buffer("mask", mask.bool() if options.healthy else mask)

    def forward(self, words):
        q, k, v = (part[:, None] for part in self.project(self.embed(words)).chunk(3, -1))
        seen = F.scaled_dot_product_attention(q, k, v, attn_mask=self.mask)
        return self.head(seen[:, 0])


model = Reader()
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
start = torch.randint(0, WORDS, (1000, 1))
rows = (start + torch.arange(LENGTH + 1) * torch.randint(1, 4, (1000, 1))) % WORDS
for step in range(120):
    words = rows[torch.randint(0, 1000, (32,))]
    optimizer.zero_grad()
    loss = F.cross_entropy(model(words[:, :-1]).flatten(0, 1), words[:, 1:].flatten())
    loss.backward()  # <- here
    optimizer.step()
    if step % 40 == 0:
        print(step, loss.item())
