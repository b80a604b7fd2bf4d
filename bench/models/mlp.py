"""A tiny MLP: a step takes less than a millisecond, so the fixed cost of hooks shows."""

from __future__ import annotations

import torch
import torch.nn.functional as functional
from torch import nn

from bench.models.loop import Step, step_of


def training() -> tuple[nn.Module, torch.optim.Optimizer, Step]:
    """Return model, optimizer and a function that runs one step."""
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10)
    )
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    x, y = torch.randn(64, 64), torch.randint(0, 10, (64,))

    def loss_of() -> torch.Tensor:
        return functional.cross_entropy(model(x), y)

    return model, optimizer, step_of(optimizer, loss_of)
