"""Snapshots hold the state from before the forward, whatever the forward changes."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from tests.adapters.torch.snapshots.test_taker import taking
from tests.adapters.torch.watched import sgd
from torch import nn

from mothtrap.adapters.torch.recording import attributes


class Pair(nn.Module):
    """A slow encoder updated in the forward from the trained one, and a counting attribute."""

    def __init__(self) -> None:
        super().__init__()
        self.quick, self.slow = nn.Linear(2, 1), nn.Linear(2, 1).requires_grad_(False)
        self.hidden = torch.zeros(2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            self.slow.weight.lerp_(self.quick.weight, 0.5)
            self.hidden += 1
        return self.quick(x) + self.slow(x)


def _taken() -> tuple[Any, list[list[float]]]:
    weights: list[list[float]] = []
    with taking(snapshot_at=(3,)) as (_, sink):
        model = Pair()
        optimizer = sgd(model.quick)
        for _ in range(5):
            weights.append(model.slow.weight.flatten().tolist())
            optimizer.zero_grad()
            model(torch.ones(3, 2)).mean().backward()
            optimizer.step()
    (taken,) = sink.taken
    return taken.state, weights


def _values(state: Any, key: str) -> list[float]:
    values: list[float] = state.arrays[key].data.view("float32").tolist()
    return values


def test_parameters_and_attributes_that_a_forward_changes_are_those_of_before() -> None:
    state, weights = _taken()
    assert _values(state, "parameter:slow.weight") == weights[3] != weights[4]
    assert _values(state, "attribute:Pair") == [3, 3]
    assert state.missing == ()


def test_what_had_no_room_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attributes, "COPIED_BYTES", 0)
    state, _ = _taken()
    assert state.missing == ("attribute hidden before the step",)
