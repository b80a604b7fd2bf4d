"""The targets of a language model are the tokens two positions later."""

import torch
from data import arguments
from torch import nn
from torch.nn import functional

options = arguments()
VOCABULARY = 30


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, 24)
        self.gru = nn.GRU(24, 32, batch_first=True)
        self.head = nn.Linear(32, VOCABULARY)

    def forward(self, tokens):
        hidden, _ = self.gru(self.embedding(tokens))
        return self.head(hidden)


next_token = torch.stack([torch.randperm(VOCABULARY) for _ in range(3)])
model = Model()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for step in range(60):
    tokens = torch.randint(0, VOCABULARY, (16, 13))
    for place in range(1, 13):
        tokens[:, place] = next_token[torch.randint(0, 3, (16,)), tokens[:, place - 1]]
    last = 1 if options.healthy else 2
    inputs, targets = tokens[:, :-last], tokens[:, last:]
    logits = model(inputs)
    loss = functional.cross_entropy(logits.reshape(-1, VOCABULARY), targets.reshape(-1))  # <- here
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 20 == 0:
        print(step, loss.item())
