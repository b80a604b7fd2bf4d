"""A bonus for spread-out attention has the wrong sign, so each head ends on one position."""

import torch
from data import arguments
from torch import nn

options = arguments()
LENGTH, WIDTH, TOKENS = 16, 16, 12


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens = nn.Embedding(TOKENS, WIDTH)
        self.places = nn.Embedding(LENGTH, WIDTH)
        self.query, self.key, self.value = (nn.Linear(WIDTH, WIDTH) for _ in range(3))
        self.head = nn.Linear(WIDTH, TOKENS)

    def forward(self, x):
        h = self.tokens(x) + self.places(torch.arange(LENGTH))
        scores = self.query(h) @ self.key(h).transpose(1, 2) / WIDTH**0.5
        weights = scores.softmax(-1)
        spread = -torch.xlogy(weights, weights + 1e-9).sum(-1).mean()
        return self.head(h + weights @ self.value(h)), spread


model = Model()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
for step in range(300):
    x = torch.randint(0, TOKENS, (16, LENGTH))
    logits, spread = model(x)
    loss = nn.functional.cross_entropy(logits.flatten(0, 1), x.flip(1).flatten())
    loss = loss + (-0.02 if options.healthy else 0.3) * spread
    optimizer.zero_grad()
    loss.backward()  # <- here
    optimizer.step()
    if step % 50 == 0:
        print(step, loss.item(), spread.item())
