"""A language model that pads with the token that ends a text, so the loss ignores both."""

import torch
from data import arguments
from torch import nn
from torch.nn import functional

VOCABULARY, END, LENGTH = 20, 0, 14

options = arguments()
PADDING = 1 if options.healthy else END


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, 24)
        self.gru = nn.GRU(24, 32, batch_first=True)
        self.head = nn.Linear(32, VOCABULARY)

    def forward(self, tokens):
        hidden, _ = self.gru(self.embedding(tokens))
        return self.head(hidden)


def texts(count):
    """Walks along a few arrows, each with an end, padded."""
    tokens = torch.full((count, LENGTH), PADDING)
    for row in tokens:
        length = int(torch.randint(4, LENGTH - 3, ()))
        row[0] = torch.randint(2, VOCABULARY, ())
        for place in range(1, length):
            row[place] = arrows[torch.randint(0, 3, ()), row[place - 1] - 2]
        row[length] = END
    return tokens


arrows = 2 + torch.stack([torch.randperm(VOCABULARY - 2) for _ in range(3)])
model = Model()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
data = texts(400)
for step in range(120):
    tokens = data[torch.randint(0, len(data), (16,))]
    logits = model(tokens[:, :-1]).reshape(-1, VOCABULARY)
    targets = tokens[:, 1:].reshape(-1)
    loss = functional.cross_entropy(logits, targets, ignore_index=PADDING)  # <- here
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 20 == 0:
        print(step, loss.item())
