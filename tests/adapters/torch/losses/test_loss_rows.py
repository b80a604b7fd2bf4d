"""Rows of a model's output that training and evaluation losses use."""

from __future__ import annotations

import torch
import torch.nn.functional as F  # noqa: N812
from tests.adapters.torch.watched import classifier, sgd, watched

from mothtrap.core.facts.evaluations import LossRowsShared

ROWS = 60


def shared(train: torch.Tensor, held_out: torch.Tensor, *, moves: bool = False) -> list[int]:
    """Train on some rows of the output, and evaluate others; `moves`: each call gets new data."""
    model, labels = classifier(), torch.randint(0, 3, (ROWS,))
    data = torch.randn(ROWS, 6)
    with watched() as seen:
        optimizer = sgd(model)
        for _ in range(5):
            given = data.clone() if moves else data
            optimizer.zero_grad()
            F.cross_entropy(model(given)[train], labels[train]).backward()
            optimizer.step()
            model.eval()
            with torch.no_grad():
                F.cross_entropy(model(given)[held_out], labels[held_out])
            model.train()
        assert seen.failed() == []
        every = [one for one in seen.observed(LossRowsShared) if isinstance(one, LossRowsShared)]
    assert all("test_loss_rows.py" in (one.location or "") for one in every)
    return [one.shared for one in every]


def test_rows_of_indices_and_masks_are_compared() -> None:
    first, last = torch.arange(0, 30), torch.arange(20, 60)
    mask = torch.arange(ROWS) >= 20
    assert shared(first, last) == [10] * 3
    assert shared(first, mask) == [10] * 3
    assert shared(first, torch.arange(30, 60)) == [0] * 3


def test_batches_have_rows_of_their_own() -> None:
    rows = torch.arange(0, 30)
    assert shared(rows, rows + 10, moves=True) == []


def masked(*, train: str) -> list[tuple[str, int, int]]:
    """Train on the labels of a mask, and evaluate without a loss."""
    model, labels, data = classifier(), torch.randint(0, 3, (ROWS,)), torch.randn(ROWS, 6)
    every = torch.ones(ROWS, dtype=torch.bool)
    train_mask, test_mask = torch.arange(ROWS) < 20, torch.arange(ROWS) >= 30
    chosen = {"every": every, "train": train_mask, "test": test_mask}[train]
    with watched() as seen:
        optimizer = sgd(model)
        for _ in range(6):
            optimizer.zero_grad()
            output = model(data) if train == "every" else model(data)[chosen]
            F.cross_entropy(output, labels[chosen]).backward()
            optimizer.step()
            model.eval()
            with torch.no_grad():
                predicted = model(data).argmax(1)
                (predicted[test_mask] == labels[test_mask]).float().mean()
            model.train()
        assert seen.failed() == []
        found = [one for one in seen.observed(LossRowsShared) if isinstance(one, LossRowsShared)]
    return [(one.mask, one.shared, one.train_rows) for one in found]


def test_masks_of_an_evaluation_without_a_loss_are_compared() -> None:
    assert masked(train="train") == [("test_mask", 0, 20)] * 2
    assert masked(train="test") == [("test_mask", 30, 30)] * 2
    assert masked(train="every") == [("test_mask", 30, ROWS)] * 2
