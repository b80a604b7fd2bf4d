"""GPT with 5,018,112 parameters: the model by which the cost of capture is judged."""

from __future__ import annotations

import torch
import torch.nn.functional as functional
from torch import nn

VOCABULARY, WIDTH, BLOCKS, HEADS, CONTEXT, BATCH = 512, 256, 6, 8, 64, 16
PARAMETERS = 5_018_112


class Block(nn.Module):
    """Pre-norm attention and MLP."""

    def __init__(self) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.proj = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.up, self.act = nn.Linear(WIDTH, 4 * WIDTH), nn.GELU()
        self.down = nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x_BTD: torch.Tensor) -> torch.Tensor:
        b, t, d = x_BTD.shape
        heads = self.qkv(self.norm1(x_BTD)).view(b, t, 3, HEADS, d // HEADS)
        q, k, v = heads.permute(2, 0, 3, 1, 4)
        mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x_BTD = x_BTD + self.proj(mixed.transpose(1, 2).reshape(b, t, d))
        return x_BTD + self.down(self.act(self.up(self.norm2(x_BTD))))


class GPT(nn.Module):
    """Learned positions, separate head."""

    def __init__(self) -> None:
        super().__init__()
        self.token = nn.Embedding(VOCABULARY, WIDTH)
        self.position = nn.Embedding(CONTEXT, WIDTH)
        self.blocks = nn.Sequential(*(Block() for _ in range(BLOCKS)))
        self.norm = nn.LayerNorm(WIDTH)
        self.head = nn.Linear(WIDTH, VOCABULARY)

    def forward(self, ids_BT: torch.Tensor) -> torch.Tensor:
        positions = torch.arange(ids_BT.shape[1])
        return self.head(self.norm(self.blocks(self.token(ids_BT) + self.position(positions))))


def training() -> tuple[nn.Module, torch.optim.Optimizer, object]:
    """Return model, optimizer and a function that makes one step."""
    torch.manual_seed(0)
    model = GPT()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    text = torch.randint(0, VOCABULARY, (BATCH, CONTEXT + 1))

    def step() -> None:
        loss = functional.cross_entropy(model(text[:, :-1]).flatten(0, 1), text[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    return model, optimizer, step
