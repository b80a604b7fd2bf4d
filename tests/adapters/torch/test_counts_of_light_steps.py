"""Observers that count steps where most steps are light: the onset, and repeated reports."""

from __future__ import annotations

import math

import pytest
import torch
from tests.adapters.torch.watched import DEFAULT, Seen, batch, sgd, watched
from torch import nn
from torch.nn import functional

from mothtrap.adapters.torch.layers import half_precision
from mothtrap.adapters.torch.optimization import rounding
from mothtrap.capture import depths
from mothtrap.core.facts.data import InputDistribution
from mothtrap.core.facts.modules import HalfPrecision, HiddenParameters, UnreachedModule
from mothtrap.core.facts.optimizers import IdleOptimizer, RoundedUpdates, UnownedParameter

STEPS = 230


@pytest.fixture(autouse=True)
def _pairs_of_ten(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make pairs full after the first 64 steps, whatever they cost and whatever is observed."""
    monkeypatch.setattr(depths, "FIRST_S", math.inf)
    monkeypatch.setattr(depths, "PART", 0.0)
    monkeypatch.setattr(depths, "LOOKED_AT", 0)


class Net(nn.Module):
    """Two layers that are used, one whose output is discarded, and one that is not visible."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.head, self.aside = nn.Linear(6, 8), nn.Linear(8, 3), nn.Linear(8, 2)
        self.hidden = [nn.Linear(8, 8)]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.hidden[0](self.body(x).relu())
        self.aside(h)
        return self.head(h)


def steps_of(model: nn.Module, optimizer: torch.optim.Optimizer, steps: int = STEPS) -> None:
    for _ in range(steps):
        optimizer.zero_grad()
        x, y = batch()
        dtype = next(model.parameters()).dtype
        functional.cross_entropy(model(x.to(dtype)), y).backward()
        optimizer.step()


def trained_in_part() -> Seen:
    torch.manual_seed(0)
    with watched(capture=DEFAULT, overhead=0.02) as seen:
        model = Net()
        idle = torch.optim.SGD([*nn.Linear(8, 3).parameters()], lr=0.1)
        optimizer = sgd(nn.ModuleList([model.body, model.aside]))
        for _ in range(STEPS):
            optimizer.zero_grad()
            x, y = batch()
            functional.cross_entropy(model(x), y).backward()
            optimizer.step()
            idle.step()
    return seen


def test_what_holds_from_the_start_is_told_with_its_first_step() -> None:
    seen = trained_in_part()
    for kind, first in (
        (UnownedParameter, 1),
        (HiddenParameters, 2),
        (UnreachedModule, 0),
        (IdleOptimizer, 0),
    ):
        found = list(seen.observed(kind))[-1]
        assert found.since is not None
        assert found.since <= first, kind


def test_what_is_due_every_hundred_steps_does_not_wait_for_a_hundred_full_ones() -> None:
    told = [fact.step for fact in trained_in_part().observed(UnownedParameter)]
    assert {(step + 1) // 100 for step in told} == {0, 1, 2}


def test_rounding_is_looked_at_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rounding, "BEGINS_EVERY", 100)
    torch.manual_seed(0)
    with watched(capture=DEFAULT, overhead=0.02) as seen:
        model = nn.Sequential(nn.Linear(6, 8), nn.Linear(8, 3)).to(torch.bfloat16)
        steps_of(model, torch.optim.SGD(model.parameters(), lr=1e-7), 300)
    first, again, *_ = seen.observed(RoundedUpdates)
    assert (first.since, first.step) == (2, 21)
    assert 102 <= again.since <= 112


def test_half_precision_is_looked_at_by_steps_not_by_full_steps() -> None:
    torch.manual_seed(0)
    with watched(capture=DEFAULT, overhead=0.02) as seen:
        model = nn.Sequential(nn.Linear(6, 8), nn.Linear(8, 3)).to(torch.float16)
        steps_of(model, torch.optim.SGD(model.parameters(), lr=1e-4))
    looked_at = {fact.step // half_precision.LOOKS_EVERY for fact in seen.observed(HalfPrecision)}
    assert looked_at >= {0, 1, 2, 3}


def test_inputs_are_summarized_by_steps_not_by_full_steps() -> None:
    told = {fact.step // 50 for fact in trained_in_part().observed(InputDistribution)}
    assert told >= {0, 1, 2, 3}
