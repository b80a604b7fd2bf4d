"""The network of the demo on scans of handwritten digits, from a loader that shuffles."""

from __future__ import annotations

import torch
import torch.nn.functional as functional
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from bench.models.loop import Step, step_of, without_end
from mothtrap.examples.digits import digits, network


def training() -> tuple[nn.Module, torch.optim.Optimizer, Step]:
    """Return model, optimizer and a function that runs one step."""
    torch.manual_seed(0)
    model = network(fixed=True)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    training, _ = digits()
    batches = without_end(DataLoader(TensorDataset(*training), batch_size=64, shuffle=True))

    def loss_of() -> torch.Tensor:
        x_BCHW, y_B = next(batches)
        return functional.cross_entropy(model(x_BCHW), y_B)

    return model, optimizer, step_of(optimizer, loss_of)
