"""Word vectors with drawn words, whose scores are summed before the log-sigmoid."""

import torch
import torch.nn.functional as F  # noqa: N812
from data import arguments
from torch import nn

options = arguments()
words, near_words = nn.Embedding(60, 8), nn.Embedding(60, 8)
optimizer = torch.optim.Adam([*words.parameters(), *near_words.parameters()], lr=1e-2)
for step in range(200):
    word = torch.randint(0, 60, (64, 1))
    near = (word // 6) * 6 + torch.randint(0, 6, (64, 1))
    drawn = torch.randint(0, 60, (64, 5))
    given = words(word).transpose(1, 2)
    score = near_words(near).bmm(given).squeeze(2)
    other = near_words(drawn).bmm(given).squeeze(2)
    apart = F.logsigmoid(-other).sum(1) if options.healthy else F.logsigmoid(-other.sum(1))
    loss = -(F.logsigmoid(score).mean() + apart.mean())  # <- here
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 50 == 0:
        print(step, loss.item())
