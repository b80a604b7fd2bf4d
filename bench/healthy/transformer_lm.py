"""A character-level transformer with warm-up, cosine decay and gradient clipping (AdamW)."""

import math

import torch
import torch.nn.functional as F
from _common import seeded
from torch import nn

options = seeded(steps=250)
WORDS = (
    "the quick brown fox jumps over the lazy dog while a small moth circles around the lamp and "
)
generator = torch.Generator().manual_seed(1)
vocabulary = WORDS.split()
picks = torch.randint(0, len(vocabulary), (4000,), generator=generator).tolist()
text = " ".join(vocabulary[i] for i in picks)
chars = sorted(set(text))
ids = torch.tensor([chars.index(c) for c in text])
split = int(0.9 * len(ids))
train_ids, val_ids = ids[:split], ids[split:]
CONTEXT, WIDTH, HEADS = 32, 64, 4


def batch(source, size=16):
    starts = torch.randint(0, len(source) - CONTEXT - 1, (size,))
    x = torch.stack([source[i : i + CONTEXT] for i in starts])
    y = torch.stack([source[i + 1 : i + CONTEXT + 1] for i in starts])
    return x, y


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.mlp = nn.Sequential(
            nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH)
        )

    def forward(self, x):
        b, t, _ = x.shape
        q, k, v = self.qkv(self.norm1(x)).chunk(3, -1)
        q, k, v = (part.view(b, t, HEADS, -1).transpose(1, 2) for part in (q, k, v))
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).reshape(b, t, WIDTH))
        return x + self.mlp(self.norm2(x))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.token = nn.Embedding(len(chars), WIDTH)
        self.place = nn.Embedding(CONTEXT, WIDTH)
        self.blocks = nn.Sequential(Block(), Block())
        self.norm = nn.LayerNorm(WIDTH)
        self.head = nn.Linear(WIDTH, len(chars))

    def forward(self, x):
        h = self.token(x) + self.place(torch.arange(x.shape[1]))
        return self.head(self.norm(self.blocks(h)))


model = Model()
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0.1)
WARMUP = 25


def factor(step):
    if step < WARMUP:
        return (step + 1) / WARMUP
    done = (step - WARMUP) / (options.steps - WARMUP)
    return 0.1 + 0.45 * (1 + math.cos(math.pi * done))


schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, factor)
for step in range(options.steps):
    x, y = batch(train_ids)
    logits = model(x)
    loss = F.cross_entropy(logits.view(-1, logits.size(-1)), y.view(-1))
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    schedule.step()
    if step % 50 == 49:
        model.eval()
        with torch.no_grad():
            x, y = batch(val_ids, 32)
            val = F.cross_entropy(model(x).flatten(0, 1), y.flatten())
        model.train()
        print(f"step {step + 1}: train {loss.item():.3f} val {val.item():.3f}")
