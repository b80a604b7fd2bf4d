"""GPT with 5,018,112 parameters: the main model for the cost of capture."""

from __future__ import annotations

import torch
import torch.nn.functional as functional
from torch import nn

from bench.models.loop import Step, step_of

VOCABULARY, WIDTH, BLOCKS, HEADS, CONTEXT, BATCH = 512, 256, 6, 8, 64, 16
PARAMETERS = 5_018_112


class Block(nn.Module):
    """Pre-norm attention and MLP."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.act = nn.Linear(width, 4 * width), nn.GELU()
        self.down = nn.Linear(4 * width, width)

    def forward(self, x_BTD: torch.Tensor) -> torch.Tensor:
        b, t, d = x_BTD.shape
        heads = self.qkv(self.norm1(x_BTD)).view(b, t, 3, HEADS, d // HEADS)
        q, k, v = heads.permute(2, 0, 3, 1, 4)
        mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x_BTD = x_BTD + self.proj(mixed.transpose(1, 2).reshape(b, t, d))
        return x_BTD + self.down(self.act(self.up(self.norm2(x_BTD))))


class GPT(nn.Module):
    """Learned positions, separate head."""

    def __init__(
        self, width: int = WIDTH, blocks: int = BLOCKS, vocabulary: int = VOCABULARY
    ) -> None:
        super().__init__()
        self.token = nn.Embedding(vocabulary, width)
        self.position = nn.Embedding(CONTEXT, width)
        self.blocks = nn.Sequential(*(Block(width) for _ in range(blocks)))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocabulary)

    def forward(self, ids_BT: torch.Tensor) -> torch.Tensor:
        positions = torch.arange(ids_BT.shape[1], device=ids_BT.device)
        return self.head(self.norm(self.blocks(self.token(ids_BT) + self.position(positions))))


def training(
    device: str = "cpu",
    width: int = WIDTH,
    blocks: int = BLOCKS,
    vocabulary: int = VOCABULARY,
    batch: int = BATCH,
) -> tuple[nn.Module, torch.optim.Optimizer, Step]:
    """Return model, optimizer and a function that runs one step."""
    torch.manual_seed(0)
    model = GPT(width, blocks, vocabulary).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    text = torch.randint(0, vocabulary, (batch, CONTEXT + 1)).to(device)

    def loss_of() -> torch.Tensor:
        return functional.cross_entropy(model(text[:, :-1]).flatten(0, 1), text[:, 1:].flatten())

    return model, optimizer, step_of(optimizer, loss_of)
