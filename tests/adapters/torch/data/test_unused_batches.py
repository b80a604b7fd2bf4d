"""A script that always trains on one batch is distinguished from one that uses its loader."""

from __future__ import annotations

import torch
from tests.adapters.torch.watched import Seen, classifier, sgd, watched
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from mothtrap.core.facts.data import OneBatchUsed


def loader() -> DataLoader:
    return DataLoader(TensorDataset(torch.randn(96, 6), torch.arange(96) % 3), 2, shuffle=True)


def run(train) -> list[OneBatchUsed]:
    seen: Seen
    with watched() as seen:
        model = classifier()
        optimizer = sgd(model)

        def step(x: torch.Tensor, y: torch.Tensor) -> None:
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(x), y).backward()
            optimizer.step()

        train(step)
    return seen.observed(OneBatchUsed)


def test_the_first_batch_is_used_for_ever() -> None:
    def train(step) -> None:
        batches = loader()
        x, y = next(iter(batches))
        for _ in range(3):
            for _data, _labels in batches:
                step(x, y)

    found, grown = run(train)
    assert (found.loader, found.unused) == ("loader 1", 32)
    assert (found.first_step, grown.steps) == (0, 129)


def test_the_last_batch_of_the_epoch_before_is_used_under_another_name() -> None:
    def train(step) -> None:
        batches = loader()
        inputs = labels = None
        for epoch in range(2):
            for images, targets in batches:
                if epoch == 0:
                    inputs, labels = images, targets
                step(inputs, labels)

    [found] = run(train)
    assert (found.first_step, found.unused) == (47, 32)


def test_several_steps_on_each_batch_are_healthy() -> None:
    def train(step) -> None:
        for x, y in loader():
            for _ in range(4):
                step(x, y)

    assert run(train) == []


def test_one_batch_learned_by_heart_on_purpose_is_healthy() -> None:
    def train(step) -> None:
        x, y = next(iter(loader()))
        for _ in range(120):
            step(x, y)

    assert run(train) == []


def test_a_held_out_batch_that_comes_along_is_healthy() -> None:
    def train(step) -> None:
        batches = loader()
        fixed, labels = next(iter(loader()))
        for x, y in batches:
            step(x, y)
            step(fixed, labels)

    assert run(train) == []
