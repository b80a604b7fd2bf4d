"""Text that is mostly padding, which the loss leaves out; the fault is a rate far too small."""

import sys

import torch
from torch import nn
from torch.nn import functional

torch.manual_seed(0)
WORDS, LENGTH = 50, 24


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(WORDS, 32, padding_idx=0)
        self.recurrent = nn.GRU(32, 32, batch_first=True)
        self.head = nn.Linear(32, WORDS)

    def forward(self, words):
        return self.head(self.recurrent(self.embedding(words))[0])


def batch():
    words = torch.zeros(16, LENGTH, dtype=torch.long)
    for row in words:
        length = int(torch.randint(3, 7, ()))
        first = int(torch.randint(0, WORDS - 1, ()))
        row[:length] = (first + 3 * torch.arange(length)) % (WORDS - 1) + 1
    return words


model = Model()
rate = 1e-2 if "--healthy" in sys.argv else 1e-7
optimizer = torch.optim.Adam(model.parameters(), lr=rate)  # <- here
for _ in range(260):
    words = batch()
    scores = model(words[:, :-1])
    targets = words[:, 1:].reshape(-1)
    loss = functional.cross_entropy(scores.reshape(-1, WORDS), targets, ignore_index=0)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
