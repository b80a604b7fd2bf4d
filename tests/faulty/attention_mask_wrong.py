"""A classifier of padded sequences, whose attention mask hides the words."""

import torch
from data import arguments
from torch import nn
from torch.nn import functional

options = arguments()
PAD = 0


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(30, 16, padding_idx=PAD)
        self.first = nn.Parameter(0.1 * torch.randn(1, 1, 16))
        self.query, self.key, self.value = (nn.Linear(16, 16) for _ in range(3))
        self.head = nn.Linear(16, 2)

    def forward(self, tokens):
        x = torch.cat([self.first.expand(len(tokens), -1, -1), self.embed(tokens)], 1)
        words = torch.cat([tokens.new_ones(len(tokens), 1), tokens != PAD], 1).bool()
        hidden = ~words if options.healthy else words
        scores = self.query(x) @ self.key(x).transpose(1, 2) / 4
        weights = scores.masked_fill(hidden[:, None], -1e9).softmax(-1)
        return self.head((weights @ self.value(x))[:, 0])


model = Classifier()
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
for step in range(200):
    tokens = torch.randint(1, 30, (32, 12))
    lengths = torch.randint(4, 12, (32, 1))
    tokens[torch.arange(12) >= lengths] = PAD
    low = ((tokens < 15) & (tokens != PAD)).sum(1)
    labels = (2 * low > lengths[:, 0]).long()
    loss = functional.cross_entropy(model(tokens), labels)  # <- here
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 50 == 0:
        print(step, loss.item())
