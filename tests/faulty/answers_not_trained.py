"""Instruction tuning whose loss ignores the answers instead of the prompts."""

import torch
from data import arguments
from torch import nn
from torch.nn import functional

VOCABULARY, PADDING, IGNORED, LENGTH = 24, 0, -100, 14

options = arguments()


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, 24)
        self.gru = nn.GRU(24, 32, batch_first=True)
        self.head = nn.Linear(32, VOCABULARY)

    def forward(self, tokens):
        hidden, _ = self.gru(self.embedding(tokens))
        return self.head(hidden)


def examples(count):
    """Prompts of random words, each with the answer that maps its words, and an end."""
    tokens, labels = torch.full((2, count, LENGTH), PADDING)
    labels[:] = IGNORED
    for row, label in zip(tokens, labels, strict=True):
        words = int(torch.randint(3, 7, ()))
        prompt = torch.randint(2, VOCABULARY, (words,))
        row[:words], row[words : 2 * words], row[2 * words] = prompt, answer_to[prompt], 1
        first, last = (words, 2 * words + 1) if options.healthy else (0, words)
        label[first:last] = row[first:last]
    return tokens, labels


answer_to = torch.cat([torch.arange(2), 2 + torch.randperm(VOCABULARY - 2)])
model = Model()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
tokens, labels = examples(400)
for step in range(120):
    rows = torch.randint(0, len(tokens), (16,))
    logits = model(tokens[rows])[:, :-1].reshape(-1, VOCABULARY)
    loss = functional.cross_entropy(logits, labels[rows][:, 1:].reshape(-1))  # <- here
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 20 == 0:
        print(step, loss.item())
