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
