"""A causal transformer on the letters of the first pages of Alice in Wonderland."""

from pathlib import Path

import torch
from digesting import begin
from torch import nn
from torch.nn.functional import cross_entropy, scaled_dot_product_attention

CONTEXT, WIDTH, HEADS = 32, 32, 2


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.mlp = nn.Sequential(nn.Linear(WIDTH, 64), nn.GELU(), nn.Linear(64, WIDTH))

    def forward(self, x):
        rows, length, _ = x.shape
        qkv = self.qkv(self.norm1(x)).view(rows, length, 3, HEADS, -1).permute(2, 0, 3, 1, 4)
        mixed = scaled_dot_product_attention(*qkv, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).reshape(rows, length, WIDTH))
        return x + self.mlp(self.norm2(x))


class LanguageModel(nn.Module):
    def __init__(self, letters):
        super().__init__()
        self.token = nn.Embedding(letters, WIDTH)
        self.position = nn.Parameter(0.02 * torch.randn(CONTEXT, WIDTH))
        self.blocks = nn.Sequential(Block(), Block())
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, letters, bias=False)
        self.head.weight = self.token.weight
        nn.init.normal_(self.token.weight, std=0.02)

    def forward(self, tokens):
        return self.head(self.norm(self.blocks(self.token(tokens) + self.position)))


digest = begin()
text = (Path(__file__).parent / "data" / "alice.txt").read_text(encoding="utf-8")
alphabet = sorted(set(text))
ids = torch.tensor([alphabet.index(letter) for letter in text])
model = LanguageModel(len(alphabet))
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0.01)
warm_up = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(1.0, step / 20))
for step in range(100):
    start = torch.randint(0, len(ids) - CONTEXT - 1, (8,))
    rows = torch.stack([ids[i : i + CONTEXT + 1] for i in start])
    digest.batch(rows)
    logits = model(rows[:, :-1])
    loss = cross_entropy(logits.flatten(0, 1), rows[:, 1:].flatten())
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    warm_up.step()
    digest.loss(loss)
    if step % 30 == 0:
        print(f"step {step}: {loss.item():.4f}")
digest.report(model)
