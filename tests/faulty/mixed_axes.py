"""A recurrent model that reorders the axes of its outputs with a view instead of a transpose."""

import torch
import torch.nn.functional as F  # noqa: N812
from data import arguments
from torch import nn

options = arguments()
embedding, rnn, head = nn.Embedding(12, 24), nn.GRU(24, 32), nn.Linear(32, 12)
model = nn.ModuleList([embedding, rnn, head])
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
for step in range(120):
    tokens = torch.randint(0, 12, (32, 9))
    targets = (tokens * 5 + 1) % 12
    out = head(rnn(embedding(tokens.t()))[0])  # (time, batch, classes)
    out = out.transpose(0, 1) if options.healthy else out.view(32, 9, 12)  # <- here
    loss = F.cross_entropy(out.flatten(0, 1), targets.flatten())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 50 == 0:
        print(step, loss.item())
