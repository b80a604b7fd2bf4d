"""An LSTM of two layers: few, expensive module calls, and outputs in tuples."""

from __future__ import annotations

import torch
import torch.nn.functional as functional
from torch import nn

from bench.models.loop import Step, step_of

VOCABULARY, WIDTH, HIDDEN, LAYERS, CONTEXT, BATCH = 512, 128, 256, 2, 64, 16


class LSTM(nn.Module):
    """Predicts the next token."""

    def __init__(self) -> None:
        super().__init__()
        self.token = nn.Embedding(VOCABULARY, WIDTH)
        self.recurrent = nn.LSTM(WIDTH, HIDDEN, LAYERS, batch_first=True)
        self.head = nn.Linear(HIDDEN, VOCABULARY)

    def forward(self, ids_BT: torch.Tensor) -> torch.Tensor:
        hidden_BTD, _ = self.recurrent(self.token(ids_BT))
        return self.head(hidden_BTD)


def training() -> tuple[nn.Module, torch.optim.Optimizer, Step]:
    """Return model, optimizer and a function that runs one step."""
    torch.manual_seed(0)
    model = LSTM()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    text = torch.randint(0, VOCABULARY, (BATCH, CONTEXT + 1))

    def loss_of() -> torch.Tensor:
        return functional.cross_entropy(model(text[:, :-1]).flatten(0, 1), text[:, 1:].flatten())

    return model, optimizer, step_of(optimizer, loss_of)
