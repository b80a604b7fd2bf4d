"""Random augmentation of evaluation rows is found, and distinguished from other changes."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from tests.adapters.torch.watched import classifier, sgd, watched
from torch import nn
from torch.utils.data import DataLoader, Dataset

from mothtrap.core.facts.data import RowsRedrawn

TRAIN = [(torch.randn(6), i % 3) for i in range(32)]
STORED = torch.randn(24, 6)


class Held(Dataset):
    """Held-out rows that a function makes of the stored ones."""

    def __init__(self, of_row: Callable[[torch.Tensor, int], object]) -> None:
        self.of_row = of_row

    def __len__(self) -> int:
        return len(STORED)

    def __getitem__(self, index: int) -> object:
        return self.of_row(STORED[index], index)


def flipped(row: torch.Tensor, index: int) -> object:
    return (row.flip(0) if torch.rand(()) < 0.5 else row), index % 3


def noisy(row: torch.Tensor, index: int) -> object:
    return {"x": row + 0.1 * torch.randn(6), "y": index % 3}


def dropped(row: torch.Tensor, index: int) -> object:
    tokens = torch.arange(6) + index
    tokens[torch.rand(6) < 0.3] = 0
    return {"x": tokens, "mask": torch.ones(6, dtype=torch.long), "y": index % 3}


def rounded(row: torch.Tensor, index: int) -> object:
    return row * (1 + 1e-6 * torch.rand(())), index % 3


def seen_of(
    of_row: Callable[[torch.Tensor, int], object], *, passes: int = 1, **how: object
) -> list[RowsRedrawn]:
    torch.manual_seed(0)
    held = DataLoader(Held(of_row), 8, **how)
    with watched() as seen:
        model = classifier()
        optimizer = sgd(model)
        for _ in range(5):
            model.train()
            for x, y in DataLoader(TRAIN, 8):
                optimizer.zero_grad()
                nn.functional.cross_entropy(model(x), y).backward()
                optimizer.step()
            model.eval()
            with torch.no_grad():
                for _ in range(passes):
                    for batch in held:
                        x = batch["x"] if isinstance(batch, dict) else batch[0]
                        model(x.float())
    return seen.observed(RowsRedrawn)


@pytest.mark.parametrize("of_row", [flipped, noisy, dropped])
@pytest.mark.parametrize("shuffle", [False, True], ids=["in order", "shuffled"])
def test_random_rows_are_found_in_the_third_evaluation(
    of_row: Callable[[torch.Tensor, int], object], shuffle: bool
) -> None:
    [found] = seen_of(of_row, shuffle=shuffle)
    assert (found.loader, found.passes) == ("loader 1", 3) or found.loader == "loader 2"
    assert found.samples >= 8
    assert found.changed >= found.samples / 4
    assert "test_redrawn_rows.py:" in (found.location or "")


@pytest.mark.parametrize(
    "of_row",
    [
        pytest.param(lambda row, index: (row, index % 3), id="stored"),
        pytest.param(rounded, id="rounding"),
        pytest.param(lambda row, index: (row.flip(0), torch.randint(3, ())), id="made up"),
        pytest.param(lambda row, index: (row + torch.randn(6), row), id="denoiser"),
        pytest.param(lambda row, index: (row + torch.randn(6), 1), id="one label"),
        pytest.param(lambda row, index: (row + torch.randn(6),), id="no labels"),
    ],
)
def test_other_rows_are_not(of_row: Callable[[torch.Tensor, int], object]) -> None:
    assert seen_of(of_row) == []


def test_an_average_over_augmentations_is_not() -> None:
    assert seen_of(flipped, passes=3) == []


def test_augmented_training_rows_are_not() -> None:
    with watched() as seen:
        model = classifier()
        optimizer = sgd(model)
        loader = DataLoader(Held(flipped), 8, shuffle=True)
        for _ in range(5):
            for x, y in loader:
                optimizer.zero_grad()
                nn.functional.cross_entropy(model(x), y).backward()
                optimizer.step()
    assert seen.observed(RowsRedrawn) == []
