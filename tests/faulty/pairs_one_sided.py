"""Word vectors of pairs, whose drawn pairs are pulled together like the true ones."""

import torch
import torch.nn.functional as F  # noqa: N812
from data import arguments
from torch import nn

options = arguments()
words, near_words = nn.Embedding(60, 8), nn.Embedding(60, 8)
optimizer = torch.optim.Adam([*words.parameters(), *near_words.parameters()], lr=1e-2)
for step in range(200):
    word = torch.randint(0, 60, (64,))
    near = (word // 6) * 6 + torch.randint(0, 6, (64,))
    drawn = torch.randint(0, 60, (64,))
    score = (words(word) * near_words(near)).sum(-1)
    other = (words(word) * near_words(drawn)).sum(-1)
    if options.healthy:
        other = -other
    loss = -(F.logsigmoid(score).mean() + F.logsigmoid(other).mean())  # <- here
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 50 == 0:
        print(step, loss.item())
