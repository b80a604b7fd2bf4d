"""An encoder gets padded sequences without a mask, so every token attends to the padding."""

from types import SimpleNamespace

import torch
import torch.nn.functional as F  # noqa: N812
from data import arguments
from torch import nn

WORDS, LENGTH, PAD = 20, 16, 0

options = arguments()


class SelfAttention(nn.Module):
    def __init__(self):
        super().__init__()
        self.is_causal = False
        self.project = nn.Linear(32, 96)

    def forward(self, x, mask):
        q, k, v = (part[:, None] for part in self.project(x).chunk(3, -1))
        visible = None if mask is None else mask.bool()[:, None, None]
        return F.scaled_dot_product_attention(q, k, v, attn_mask=visible)[:, 0]


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.config = SimpleNamespace(pad_token_id=PAD)
        self.embed, self.attention = nn.Embedding(WORDS, 32), SelfAttention()
        self.head = nn.Linear(32, 2)

    def forward(self, input_ids, attention_mask=None):
        return self.head(self.attention(self.embed(input_ids), attention_mask)[:, 0])


model = Encoder()
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
rows = torch.randint(2, WORDS, (1000, LENGTH))
labels = torch.randint(0, 2, (1000,))
rows[:, 1] = torch.where(labels == 1, 1, rows[:, 1])
lengths = torch.randint(4, LENGTH + 1, (1000, 1))
rows[torch.arange(LENGTH) >= lengths] = PAD
for step in range(120):
    chosen = torch.randint(0, 1000, (32,))
    mask = (rows[chosen] != PAD) if options.healthy else None
    optimizer.zero_grad()
    output = model(rows[chosen], attention_mask=mask)  # <- here
    loss = F.cross_entropy(output, labels[chosen])
    loss.backward()
    optimizer.step()
    if step % 40 == 0:
        print(step, loss.item())
