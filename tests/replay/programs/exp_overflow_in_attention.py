"""Attention whose softmax is written with a bare exponential: one sequence is too loud.

Operation torch.exp in module blocks.1.attention, row 3, step 128. What the causal mask makes
-inf is in order. A trainer class draws its batches from a generator.
"""

import math

import torch
from telling import Telling
from torch import nn


class Attention(nn.Module):
    """One causal head."""

    def __init__(self, width):
        super().__init__()
        self.qkv = nn.Linear(width, 3 * width)
        self.register_buffer("future", torch.ones(64, 64).triu(1).bool())

    def forward(self, x):
        q, k, v = self.qkv(x).chunk(3, dim=-1)
        scores = q @ k.transpose(1, 2) / math.sqrt(q.shape[-1])
        scores = scores.masked_fill(self.future[: x.shape[1], : x.shape[1]], -math.inf)
        weights = torch.exp(scores)  # <- here
        return weights / weights.sum(-1, keepdim=True) @ v


class Block(nn.Module):
    """Attention on a residual stream."""

    def __init__(self, width):
        super().__init__()
        self.attention = Attention(width)

    def forward(self, x):
        return x + self.attention(x)


class Model(nn.Module):
    """Two blocks; the second hears the stream louder."""

    def __init__(self, width=16):
        super().__init__()
        self.enter = nn.Linear(4, width)
        self.blocks = nn.ModuleList([Block(width), Block(width)])
        self.out = nn.Linear(width, 4)

    def forward(self, x):
        loud = 3 * (1 + x.abs().amax(-1, keepdim=True))
        x = self.blocks[0](torch.tanh(self.enter(x)))
        return self.out(torch.tanh(self.blocks[1](loud * x) / 10))


class Trainer:
    """Predicts the next element of noisy waves."""

    def __init__(self):
        self.model = Model()
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-3)
        self.tell = Telling(self.model)

    def batches(self):
        """Yield waves (8, 12, 4)."""
        for number in range(135):
            start = torch.rand(8, 1, 1) * 6
            waves = torch.sin(start + torch.arange(12).view(1, -1, 1) * torch.rand(1, 1, 4))
            if number == 128:
                waves[3] *= 30
            yield waves

    def train(self):
        """One pass."""
        for step, waves in enumerate(self.batches()):
            self.tell(step)
            loss = self.step(waves)
            loss.backward()
            self.optimizer.step()
            self.optimizer.zero_grad()

    def step(self, waves):
        """Return the loss of a batch."""
        return nn.functional.mse_loss(self.model(waves[:, :-1]), waves[:, 1:].clamp(-1, 1))


if __name__ == "__main__":
    torch.set_num_threads(1)
    torch.manual_seed(4)
    Trainer().train()
