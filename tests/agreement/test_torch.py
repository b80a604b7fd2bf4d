"""PyTorch's facts of the batch."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from tests.agreement import batch, golden, stored  # noqa: E402

from mothtrap.adapters.torch import ADAPTER  # noqa: E402
from mothtrap.testing.adapters import Process  # noqa: E402


def network(kind: str) -> torch.nn.Module:
    last_weight, last_bias = batch.last_layer(kind)
    model = torch.nn.Sequential(
        torch.nn.Linear(batch.FEATURES, batch.HIDDEN),
        torch.nn.ReLU(),
        torch.nn.Linear(batch.HIDDEN, len(last_bias)),
    )
    with torch.no_grad():
        for layer, weight, bias in (
            (model[0], batch.W1, batch.B1),
            (model[2], last_weight, last_bias),
        ):
            layer.weight.copy_(torch.from_numpy(weight.T))
            layer.bias.copy_(torch.from_numpy(bias))
    return model


def train(kind: str) -> Process:
    """Make a few steps on the batch, each followed by an evaluation."""
    process = Process("torch")
    with process.watched(ADAPTER):
        model = network(kind)
        x, y = map(torch.from_numpy, batch.data(kind))
        y = y.long() if kind == "classes" else y
        functional = torch.nn.functional
        loss_of = functional.cross_entropy if kind == "classes" else functional.mse_loss
        optimizer = torch.optim.SGD(model.parameters(), batch.RATE)
        for _ in range(batch.STEPS):
            loss = loss_of(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            with torch.no_grad():
                model.eval()
                loss_of(model(x), y)
                model.train()
    return process


@pytest.mark.parametrize("kind", stored.KINDS)
def test_facts_agree(kind: str) -> None:
    facts = train(kind).facts()
    stored.assert_agrees("torch", kind, facts)
    golden.assert_unchanged("torch", kind, facts)
