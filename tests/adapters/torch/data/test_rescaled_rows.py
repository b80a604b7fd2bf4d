"""Samples whose stored values are changed in place are distinguished from augmented ones."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from tests.adapters.torch.watched import classifier, sgd, watched
from torch import nn
from torch.utils.data import DataLoader, Dataset, TensorDataset

from mothtrap.core.facts.data import RowsRescaled


class Stored(Dataset):
    """Rows that a function transforms when they are read."""

    def __init__(self, transform, rows: int = 48) -> None:
        self.rows = torch.randn(rows, 6) + 0.5
        self.transform = transform

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int):
        return self.transform(self.rows[index]), index % 3


class Arrays(Dataset):
    """Pixels in a numpy array."""

    def __init__(self, *, in_place: bool) -> None:
        self.pixels = np.random.default_rng(0).uniform(0, 255, (48, 6)).astype(np.float32)
        self.in_place = in_place

    def __len__(self) -> int:
        return len(self.pixels)

    def __getitem__(self, index: int):
        row = self.pixels[index]
        if self.in_place:
            row /= 25.5
        else:
            row = row / 25.5
        return torch.from_numpy(row), index % 3


def seen_of(loader: DataLoader, passes: int = 4) -> list[RowsRescaled]:
    with watched() as seen:
        model = classifier()
        optimizer = sgd(model)
        for _ in range(passes):
            for x, y in loader:
                optimizer.zero_grad()
                nn.functional.cross_entropy(model(x), y).backward()
                optimizer.step()
    return seen.observed(RowsRescaled)


def test_a_normalization_in_place_is_found_in_the_third_pass() -> None:
    data = Stored(lambda row: row.sub_(0.4).div_(0.5))
    [found] = seen_of(DataLoader(data, 8, shuffle=True))
    assert (found.loader, found.tensor, found.passes) == ("loader 1", "0", 3)
    assert found.scale == pytest.approx(2)
    assert found.first_step in (5, 6)  # the batch is loaded before step 6 begins
    assert "test_rescaled_rows.py:" in (found.location or "")


def test_pixels_divided_in_place_in_numpy() -> None:
    [found] = seen_of(DataLoader(Arrays(in_place=True), 8, shuffle=True))
    assert found.scale == pytest.approx(1 / 25.5, rel=1e-3)
    assert seen_of(DataLoader(Arrays(in_place=False), 8, shuffle=True)) == []


@pytest.mark.parametrize(
    "transform",
    [
        pytest.param(lambda row: row.sub(0.4).div(0.5), id="a copy"),
        pytest.param(lambda row: row * (1 + torch.rand(1)), id="brightness of each sample"),
        pytest.param(lambda row: row.flip(0) if torch.rand(()) < 0.5 else row, id="flips"),
        pytest.param(lambda row: row + 0.1 * torch.randn_like(row), id="noise"),
    ],
)
def test_copies_and_augmentation_are_healthy(transform) -> None:
    assert seen_of(DataLoader(Stored(transform), 8, shuffle=True)) == []


def test_a_change_between_two_passes_alone_is_not_enough() -> None:
    rows = torch.randn(48, 6)
    loader = DataLoader(TensorDataset(rows, torch.arange(48) % 3), 8, shuffle=True)
    with watched() as seen:
        model = classifier()
        optimizer = sgd(model)
        for number in range(5):
            if number == 2:
                rows.mul_(3)  # a curriculum changes the rows once
            for x, y in loader:
                optimizer.zero_grad()
                nn.functional.cross_entropy(model(x), y).backward()
                optimizer.step()
    assert seen.observed(RowsRescaled) == []
