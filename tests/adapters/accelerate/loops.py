"""Small deterministic training loops that use an Accelerator."""

from __future__ import annotations

from typing import Any

import accelerate
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

SETTINGS: dict[str, dict[str, Any]] = {
    "plain": {},
    "accumulation": {"gradient_accumulation_steps": 4},
    "bf16": {"gradient_accumulation_steps": 2, "mixed_precision": "bf16"},
    "nan": {},
    "scheduled": {},
}


def train(kind: str = "plain") -> nn.Module:
    """Train two epochs of eight batches from the beginning."""
    accelerate.state.AcceleratorState._reset_state(reset_partial_state=True)
    torch.manual_seed(0)
    one = accelerate.Accelerator(cpu=True, **SETTINGS[kind])
    x = torch.randn(64, 4)
    if kind == "nan":
        x[20, 0] = torch.nan
    loader = DataLoader(TensorDataset(x, x.sum(1, keepdim=True)), 8, shuffle=True)
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    scheduler = torch.optim.lr_scheduler.ExponentialLR(
        optimizer, 0.9 if kind == "scheduled" else 1.0
    )
    model, optimizer, loader, scheduler = one.prepare(model, optimizer, loader, scheduler)
    for _ in range(2):
        for rows, targets in loader:
            with one.accumulate(model):
                loss = nn.functional.mse_loss(model(rows), targets)
                one.backward(loss)
                one.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
                scheduler.step()
                optimizer.zero_grad()
            one.log({"my_loss": loss.item()})
    return model


def weights(model: nn.Module) -> bytes:
    """Return the weights of a model and the state of the random generator."""
    parts = [p.detach().numpy().tobytes() for p in model.parameters()]
    return b"".join(parts) + torch.get_rng_state().numpy().tobytes()


def trained(kind: str, *, ranks: int) -> bytes:
    """Train as one of several ranks, which Accelerate detects itself; return the weights."""
    return weights(train(kind))
