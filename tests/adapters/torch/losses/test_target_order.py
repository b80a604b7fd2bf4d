from __future__ import annotations

import math

import pytest
import torch
from tests.adapters.torch.watched import Seen, classifier, sgd, watched
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

from mothtrap.adapters.torch.losses import target_order
from mothtrap.core.facts.data import NonfiniteInput, TargetOrder

Tensor = torch.Tensor


def train(batches, loss=functional.cross_entropy, outputs: int = 3) -> Seen:
    model = classifier(classes=outputs)
    with watched() as seen:
        optimizer = sgd(model)
        for x, y in batches:
            optimizer.zero_grad()
            loss(model(x), y).backward()
            optimizer.step()
    return seen


def sliced(targets: Tensor, size: int = 4):
    return [(torch.randn(len(y), 6), y) for y in targets.split(size)]


def test_class_counts_are_told_batch_by_batch() -> None:
    labels = torch.arange(48) // 16
    [told] = train(sliced(labels)).observed(TargetOrder)
    assert told.steps == tuple(range(8))
    assert told.counts == ((4, 0, 0),) * 4 + ((0, 4, 0),) * 4
    assert (told.moments, told.loader, told.sampler) == ((), None, None)
    assert "test_target_order.py:" in (told.location or "")


def test_the_loader_and_its_sampler_are_told() -> None:
    data = TensorDataset(torch.randn(64, 6), torch.arange(64) % 3)
    seen = train(DataLoader(data, batch_size=4))
    assert {(t.loader, t.sampler) for t in seen.observed(TargetOrder)} == {
        ("loader 1", "sequential")
    }


def test_records_grow_and_are_told_at_powers_of_two() -> None:
    seen = train(sliced(torch.arange(160) % 3))
    assert [len(told.steps) for told in seen.observed(TargetOrder)] == [8, 16, 32]


def test_binary_labels_are_counted() -> None:
    def loss(out: Tensor, y: Tensor) -> Tensor:
        return functional.binary_cross_entropy_with_logits(out[:, 0], y)

    [told] = train(sliced((torch.arange(40) % 4 == 0).float()), loss).observed(TargetOrder)
    assert told.counts == ((3, 1),) * 8


def test_numbers_have_moments() -> None:
    def loss(out: Tensor, y: Tensor) -> Tensor:
        return functional.mse_loss(out[:, 0], y)

    [told] = train(sliced(torch.arange(40.0)), loss).observed(TargetOrder)
    assert told.moments[1] == (4.0, 5.5, 1.25)
    assert told.counts == ()


def test_rows_with_several_targets_and_soft_labels_are_left_out() -> None:
    images = [(torch.randn(4, 6), torch.randn(4, 3)) for _ in range(12)]
    assert train(images, functional.mse_loss).observed(TargetOrder) == []
    soft = [(x, y.softmax(1)) for x, y in images]
    assert train(soft).observed(TargetOrder) == []
    mixed = [(x, torch.rand(4)) for x, _ in images]

    def binary(out: Tensor, y: Tensor) -> Tensor:
        return functional.binary_cross_entropy_with_logits(out[:, 0], y)

    assert train(mixed, binary).observed(TargetOrder) == []


def test_ignored_labels_are_not_counted_and_many_classes_share_a_bin() -> None:
    labels = torch.arange(48) % 3
    labels[1] = -100
    [told] = train(sliced(labels)).observed(TargetOrder)
    assert sum(told.counts[0]) == 3
    many = train(sliced(torch.arange(48) * 4), outputs=200).observed(TargetOrder)[0]
    assert len(many.counts[0]) == 50
    assert many.counts[0][:5] == (1, 1, 1, 1, 0)


@pytest.mark.parametrize("classes", [True, False])
def test_micro_batches_of_a_step_count_together(classes: bool) -> None:
    model = classifier() if classes else nn.Linear(6, 1)
    loss = nn.CrossEntropyLoss() if classes else nn.MSELoss()
    with watched() as seen:
        optimizer = sgd(model)
        for _ in range(9):
            optimizer.zero_grad()
            for part in range(2):
                y = torch.full((4,), part)
                y = y if classes else y.float().reshape(4, 1)
                loss(model(torch.randn(4, 6)), y).backward()
            optimizer.step()
    [told] = seen.observed(TargetOrder)
    if told.counts:
        assert told.counts == ((4, 4, 0),) * 8
    else:
        assert told.moments == ((8.0, 0.5, 0.25),) * 8


def test_call_sites_are_told_apart() -> None:
    model = classifier(classes=1)
    with watched() as seen:
        optimizer = sgd(model)
        for _ in range(9):
            optimizer.zero_grad()
            out = model(torch.randn(4, 6))[:, 0]
            functional.binary_cross_entropy_with_logits(out, torch.ones(4)).backward()
            out = model(torch.randn(4, 6))[:, 0]
            functional.binary_cross_entropy_with_logits(out, torch.zeros(4)).backward()
            optimizer.step()
    assert {told.counts for told in seen.observed(TargetOrder)} == {((0, 4),) * 8, ((4, 0),) * 8}


def test_later_batches_are_looked_at_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(target_order, "EVERY_STEP", 4)
    monkeypatch.setattr(target_order, "THEN_EVERY", 8)
    seen = train(sliced(torch.arange(400) % 3))
    assert seen.observed(TargetOrder)[0].steps == (0, 1, 2, 3, 8, 16, 24, 32)


def handwritten(out: Tensor, y: Tensor) -> Tensor:
    return -out.log_softmax(1)[torch.arange(len(y)), y].mean()


def test_of_a_loss_written_by_hand_the_loader_knows_the_targets() -> None:
    data = TensorDataset(torch.randn(40, 6), torch.arange(40) // 20)
    told = train(DataLoader(data, batch_size=4), handwritten).observed(TargetOrder)[0]
    assert told.counts == ((4, 0),) * 5 + ((0, 4),) * 3
    assert train(sliced(torch.arange(40) // 20), handwritten).observed(TargetOrder) == []


def test_numbers_that_a_loader_gives_have_moments() -> None:
    def loss(out: Tensor, y: Tensor) -> Tensor:
        return (out[:, :1] - y).abs().pow(1.5).mean()

    data = TensorDataset(torch.randn(40, 6), torch.arange(40.0).reshape(40, 1))
    told = train(DataLoader(data, batch_size=4), loss).observed(TargetOrder)[0]
    assert told.moments[1] == (4.0, 5.5, 1.25)


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_a_target_that_breaks_the_loss_is_found(bad: float) -> None:
    def loss(out: Tensor, y: Tensor) -> Tensor:
        return functional.mse_loss(out[:, 0], y)

    targets = torch.arange(40.0)
    targets[21] = bad
    [found] = train(sliced(targets), loss).observed(NonfiniteInput)
    assert (found.step, found.tensor, found.source, found.rows) == (5, "target", "the loss", (1,))
    assert "test_target_order.py:" in (found.location or "")


def test_a_target_is_not_blamed_where_the_model_broke() -> None:
    def loss(out: Tensor, y: Tensor) -> Tensor:
        return functional.mse_loss((out[:, 0] - out[:, 0]).log() * 0, y * math.nan)

    found = train(sliced(torch.ones(40)), loss).observed(NonfiniteInput)
    assert {fact.tensor for fact in found} == {"target"}
    model = nn.Sequential(classifier(), Broken())
    with watched() as seen:
        optimizer = sgd(model)
        loss(model(torch.randn(4, 6)), torch.ones(4)).backward()
        optimizer.step()
    assert seen.observed(NonfiniteInput) == []


class Broken(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x / 0
