"""A masked language model whose labels are all tokens, and not only the masked ones."""

import torch
from data import arguments
from torch import nn
from torch.nn import functional

WORDS, LENGTH, MASK = 40, 16, 0

options = arguments()
model = nn.Sequential(
    nn.Embedding(WORDS, 32),
    nn.TransformerEncoderLayer(32, 4, 64, dropout=0.0, batch_first=True),
    nn.Linear(32, WORDS),
)
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
for step in range(120):
    starts = torch.randint(0, WORDS - 1, (32, 1))
    words = 1 + (starts + 3 * torch.arange(LENGTH)) % (WORDS - 1)
    masked = torch.rand(words.shape) < 0.15
    labels = torch.where(masked, words, -100) if options.healthy else words
    scores = model(torch.where(masked, MASK, words))
    loss = functional.cross_entropy(scores.flatten(0, 1), labels.flatten())  # <- here
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 40 == 0:
        print(step, loss.item())
