"""A tagger that computes its own loss gets labels of 0, and not of -100, for padding."""

import torch
import torch.nn.functional as F  # noqa: N812
from data import arguments
from torch import nn

WORDS, LENGTH, TAGS, PAD = 20, 16, 4, 0

options = arguments()


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.head = nn.Embedding(WORDS, 32), nn.Linear(32, TAGS)

    def forward(self, input_ids, attention_mask=None, labels=None):
        scores = self.head(torch.relu(self.embed(input_ids)))
        return F.cross_entropy(scores.flatten(0, 1), labels.flatten())


model = Tagger()
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
rows = torch.randint(1, WORDS, (1000, LENGTH))
tags = torch.where(torch.rand(1000, LENGTH) < 0.1, 0, rows % TAGS)
is_padding = torch.arange(LENGTH) >= torch.randint(4, LENGTH + 1, (1000, 1))
rows[is_padding] = PAD
tags[is_padding] = -100 if options.healthy else 0
for step in range(120):
    chosen = torch.randint(0, 1000, (32,))
    batch = {"input_ids": rows[chosen], "attention_mask": (~is_padding[chosen]).long()}
    optimizer.zero_grad()
    loss = model(**batch, labels=tags[chosen])  # <- here
    loss.backward()
    optimizer.step()
    if step % 40 == 0:
        print(step, loss.item())
