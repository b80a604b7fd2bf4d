"""The adapter of Accelerate is what every adapter is, over its ways to train."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import pytest

accelerate = pytest.importorskip("accelerate")

import torch  # noqa: E402
from torch import nn  # noqa: E402
from torch.utils.data import DataLoader, TensorDataset  # noqa: E402

from mothtrap.adapters import accelerate as adapter  # noqa: E402
from mothtrap.core.facts.losses import LossSeries  # noqa: E402
from mothtrap.core.facts.trainers import TrainerSettings  # noqa: E402
from mothtrap.testing import AdapterTests  # noqa: E402
from mothtrap.testing.adapters import Process  # noqa: E402

SETTINGS: dict[str, dict[str, Any]] = {
    "plain": {},
    "accumulation": {"gradient_accumulation_steps": 4},
    "bf16": {"gradient_accumulation_steps": 2, "mixed_precision": "bf16"},
}


def train(kind: str = "plain") -> nn.Module:
    """Train two epochs of eight batches from the beginning."""
    accelerate.state.AcceleratorState._reset_state(reset_partial_state=True)
    torch.manual_seed(0)
    one = accelerate.Accelerator(cpu=True, **SETTINGS[kind])
    x = torch.randn(64, 4)
    loader = DataLoader(TensorDataset(x, x.sum(1, keepdim=True)), 8, shuffle=True)
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    model, optimizer, loader = one.prepare(model, optimizer, loader)
    for _ in range(2):
        for rows, targets in loader:
            with one.accumulate(model):
                loss = nn.functional.mse_loss(model(rows), targets)
                one.backward(loss)
                one.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
                optimizer.zero_grad()
            one.log({"my_loss": loss.item()})
    return model


def weights(model: nn.Module) -> bytes:
    parts = [p.detach().numpy().tobytes() for p in model.parameters()]
    return b"".join(parts) + torch.get_rng_state().numpy().tobytes()


@pytest.mark.smoke
class TestAccelerate(AdapterTests):
    adapter = adapter
    steps = 16
    replaced: ClassVar = (accelerate.Accelerator,)

    def train(self) -> bytes:
        return weights(train())

    def reported(self) -> Sequence[Callable[[], object]]:
        return [train]


@pytest.mark.parametrize("kind", SETTINGS)
def test_weights_are_bit_identical_and_settings_are_facts(kind: str) -> None:
    plain = weights(train(kind))
    process = Process("torch")
    with process.watched(adapter):
        watched = weights(train(kind))
    assert watched == plain
    accumulates = SETTINGS[kind].get("gradient_accumulation_steps", 1)
    assert len(process.steps()) == 16 // accumulates
    (settings,) = [fact for fact in process.facts() if isinstance(fact, TrainerSettings)]
    assert settings.accumulates == accumulates
    assert settings.precision == SETTINGS[kind].get("mixed_precision", "no")
    assert settings.model == "Sequential"
    (series,) = [fact for fact in process.facts() if isinstance(fact, LossSeries)]
    assert series.location is not None
    assert "test_conformance.py:" in series.location
    logged = [s for record in process.records for s in record.scalars if s.name == "my_loss"]
    assert len(logged) == 16
