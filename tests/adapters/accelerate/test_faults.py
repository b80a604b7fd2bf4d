"""Faults in scripts that use an Accelerator."""

from __future__ import annotations

import pytest

accelerate = pytest.importorskip("accelerate")

import torch  # noqa: E402
from torch import nn  # noqa: E402
from torch.utils.data import DataLoader, TensorDataset  # noqa: E402

from mothtrap.adapters.accelerate import ADAPTER  # noqa: E402
from mothtrap.core.findings import Finding  # noqa: E402
from mothtrap.testing.adapters import Process  # noqa: E402


def findings(*, accumulates: bool) -> list[Finding]:
    process = Process("torch")
    with process.watched(ADAPTER):
        accelerate.state.AcceleratorState._reset_state(reset_partial_state=True)
        torch.manual_seed(0)
        one = accelerate.Accelerator(cpu=True, gradient_accumulation_steps=2)
        x = torch.randn(256, 4)
        loader = DataLoader(TensorDataset(x, x.sum(1, keepdim=True)), 8, shuffle=True)
        model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
        model, optimizer, loader = one.prepare(
            model, torch.optim.SGD(model.parameters(), 1e-2), loader
        )

        def step(rows: torch.Tensor, targets: torch.Tensor) -> None:
            one.backward(nn.functional.mse_loss(model(rows), targets))
            optimizer.step()
            optimizer.zero_grad()

        for _ in range(2):
            for rows, targets in loader:
                if accumulates:
                    with one.accumulate(model):
                        step(rows, targets)
                else:
                    step(rows, targets)
    return [found for found in process.findings() if found.name == "accumulation_without_effect"]


def test_a_missing_context_of_accumulation_is_named() -> None:
    [found] = findings(accumulates=False)
    assert found.message.startswith(
        "Accelerator is set to accumulate the gradients of 2 batches, but every step"
    )
    assert not findings(accumulates=True)
