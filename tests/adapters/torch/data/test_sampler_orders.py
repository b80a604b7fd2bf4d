"""Passes over a loader with a `DistributedSampler` whose epoch is not set."""

from __future__ import annotations

import pytest
import torch
from tests.adapters.torch.watched import Seen, sgd, watched
from torch import nn
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

from mothtrap.core.facts.replicas import OrderRepeated


def trained(*, sets_epoch: bool = False, shuffle: bool = True, peeks: bool = False) -> Seen:
    data = TensorDataset(torch.randn(32, 4), torch.randint(0, 2, (32,)))
    sampler = DistributedSampler(data, num_replicas=2, rank=1, shuffle=shuffle)
    loader = DataLoader(data, batch_size=4, sampler=sampler)
    model = nn.Linear(4, 2)
    optimizer = sgd(model)
    with watched() as seen:
        for epoch in range(4):
            if sets_epoch:
                sampler.set_epoch(epoch)
            if peeks:
                next(iter(loader))
            for x, y in loader:
                optimizer.zero_grad()
                nn.functional.cross_entropy(model(x), y).backward()
                optimizer.step()
    return seen


@pytest.mark.parametrize("peeks", [False, True])
def test_passes_in_the_same_order_are_counted(peeks: bool) -> None:
    found = trained(peeks=peeks).observed(OrderRepeated)
    assert [(one.passes, one.epoch) for one in found] == [(2, 0), (3, 0), (4, 0)]
    assert found[0].location is not None


def test_nothing_is_reported_if_the_order_changes_or_is_not_shuffled() -> None:
    assert not trained(sets_epoch=True).observed(OrderRepeated)
    assert not trained(sets_epoch=True, peeks=True).observed(OrderRepeated)
    assert not trained(shuffle=False).observed(OrderRepeated)


def test_a_loader_that_is_only_evaluated_is_left_out() -> None:
    data = TensorDataset(torch.randn(32, 4))
    loader = DataLoader(data, 4, sampler=DistributedSampler(data, num_replicas=2, rank=0))
    model = nn.Linear(4, 2)
    optimizer = sgd(model)
    with watched() as seen:
        for _ in range(4):
            optimizer.zero_grad()
            model(torch.randn(4, 4)).sum().backward()
            optimizer.step()
            with torch.no_grad():
                for (x,) in loader:
                    model(x)
    assert not seen.observed(OrderRepeated)
