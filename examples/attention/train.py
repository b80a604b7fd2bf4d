"""Read handwritten digits with a small transformer.

A scan of 8 x 8 pixels is a sequence of 16 patches of 2 x 2, behind a token that stands for the
whole and from which the class is read. Attention is PyTorch's own, which returns the weights of
each head when it is asked for them. The data are scikit-learn's 1,797 scans.
"""

# ruff: noqa: T201
from __future__ import annotations

import argparse

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.nn import functional

WIDTH, HEADS, LAYERS, PATCHES = 32, 4, 2, 16
SHOWN = 64
"""Scans of the evaluation, the same at each."""


class Block(nn.Module):
    """Attention among the tokens, and a perceptron."""

    def __init__(self) -> None:
        super().__init__()
        self.before, self.between = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.attention = nn.MultiheadAttention(WIDTH, HEADS, batch_first=True)
        self.perceptron = nn.Sequential(
            nn.Linear(WIDTH, 2 * WIDTH), nn.GELU(), nn.Linear(2 * WIDTH, WIDTH)
        )

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Return the tokens with what they found in each other."""
        seen = self.before(tokens)
        found, _ = self.attention(seen, seen, seen, average_attn_weights=False)
        tokens = tokens + found
        return tokens + self.perceptron(self.between(tokens))


class Reader(nn.Module):
    """Scores of ten classes."""

    def __init__(self) -> None:
        super().__init__()
        self.patches = nn.Conv2d(1, WIDTH, 2, stride=2)
        self.whole = nn.Parameter(torch.zeros(1, 1, WIDTH))
        self.position = nn.Parameter(0.1 * torch.randn(1 + PATCHES, WIDTH))
        self.blocks = nn.Sequential(*(Block() for _ in range(LAYERS)))
        self.head = nn.Sequential(nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 10))

    def forward(self, scans: torch.Tensor) -> torch.Tensor:
        """Return scores, shape (scans, 10)."""
        patches = self.patches(scans).flatten(2).transpose(1, 2)
        tokens = torch.cat([self.whole.expand(len(scans), -1, -1), patches], dim=1)
        return self.head(self.blocks(tokens + self.position)[:, 0])


def main() -> None:
    """Train, and evaluate the same scans after each epoch."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=12)
    epochs = parser.parse_args().epochs
    torch.manual_seed(0)
    torch.set_num_threads(1)
    loaded = load_digits()
    scans = torch.as_tensor(loaded.images / 16, dtype=torch.float32).unsqueeze(1)
    labels = torch.as_tensor(loaded.target, dtype=torch.int64)
    order = torch.randperm(len(scans))
    shown, rest = order[:SHOWN], order[SHOWN:]
    model = Reader()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    for epoch in range(1, epochs + 1):
        model.train()
        for batch in rest[torch.randperm(len(rest))].split(64):
            optimizer.zero_grad()
            functional.cross_entropy(model(scans[batch]), labels[batch]).backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
        model.eval()
        with torch.no_grad():
            scores = model(scans[shown])
            loss = functional.cross_entropy(scores, labels[shown])
        right = (scores.argmax(dim=1) == labels[shown]).float().mean()
        print(f"epoch {epoch}: loss {loss:.3f}, {right:.0%} of {SHOWN} scans read right")


if __name__ == "__main__":
    main()
