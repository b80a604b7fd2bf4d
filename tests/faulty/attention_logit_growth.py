"""Positions are added to the token embeddings as plain numbers, 0 to 47."""

import torch
from data import arguments
from torch import nn

options = arguments()
LENGTH, WIDTH, TOKENS, HEADS = 48, 32, 16, 2


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens = nn.Embedding(TOKENS, WIDTH)
        if options.healthy:
            self.places = nn.Embedding(LENGTH, WIDTH)
        self.projection = nn.Linear(WIDTH, 3 * WIDTH)
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, TOKENS)

    def forward(self, x):
        where = torch.arange(LENGTH)
        if options.healthy:
            h = self.tokens(x) + self.places(where)
        else:
            h = self.tokens(x) + where[:, None]
        q, k, v = (
            part.reshape(len(x), LENGTH, HEADS, -1).transpose(1, 2)
            for part in self.projection(h).chunk(3, dim=-1)
        )
        mixed = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.head(self.norm(mixed.transpose(1, 2).reshape_as(h)))


model = Model()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
for step in range(150):
    start = torch.randint(0, TOKENS, (16, 1))
    x = (start + torch.arange(LENGTH + 1) * torch.randint(1, 4, (16, 1))) % TOKENS
    logits = model(x[:, :-1])
    loss = nn.functional.cross_entropy(logits.flatten(0, 1), x[:, 1:].flatten())
    optimizer.zero_grad()
    loss.backward()  # <- here
    optimizer.step()
    if step % 30 == 0:
        print(step, loss.item())
