"""A language model that computes its own loss, as nanoGPT does, attends to later positions."""

import sys

import torch
from torch import nn
from torch.nn import functional

torch.manual_seed(0)
WORDS, LENGTH, WIDTH = 40, 24, 32


class Model(nn.Module):
    def __init__(self, causal):
        super().__init__()
        self.causal = causal
        self.words = nn.Embedding(WORDS, WIDTH)
        self.places = nn.Embedding(LENGTH, WIDTH)
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH)
        self.body = nn.Sequential(nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WIDTH), nn.GELU())
        self.head = nn.Linear(WIDTH, WORDS)

    def forward(self, words, targets):
        h = self.words(words) + self.places(torch.arange(words.shape[1]))
        q, k, v = self.qkv(h)[:, None].chunk(3, dim=-1)
        h = h + functional.scaled_dot_product_attention(q, k, v, is_causal=self.causal)[:, 0]
        scores = self.head(h + self.body(h))
        loss = functional.cross_entropy(scores.view(-1, WORDS), targets.view(-1))
        return scores, loss


text = torch.randint(0, WORDS, (5000,))
model = Model(causal="--healthy" in sys.argv)
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
for _ in range(120):
    begins = torch.randint(0, len(text) - LENGTH - 1, (32,))
    x = torch.stack([text[b : b + LENGTH] for b in begins])
    y = torch.stack([text[b + 1 : b + 1 + LENGTH] for b in begins])
    _, loss = model(x, y)  # <- here
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
