"""Samples as a data set stores them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import Dataset, Subset, TensorDataset

from mothtrap.adapters.torch.checking.stored_samples import stored

X = torch.arange(24.0).view(8, 3)


class Augmented(Dataset[Any]):
    """Adds noise to the samples that it holds."""

    def __init__(self, held: Any) -> None:
        self.held = held

    def __len__(self) -> int:
        return len(self.held)

    def __getitem__(self, index: int) -> Any:
        return self.held[index] + torch.randn(3)


@pytest.mark.parametrize("held", [X, X.numpy(), TensorDataset(X, torch.arange(8))])
def test_rows_of_the_array_that_a_data_set_holds(held: Any) -> None:
    read = stored(Augmented(held))
    assert read is not None
    np.testing.assert_array_equal(read(2), X[2].numpy())


def test_parts_of_a_data_set_that_another_one_wraps() -> None:
    read = stored(Augmented(Subset(TensorDataset(X, torch.arange(8)), [4, 6])))
    assert read is not None
    np.testing.assert_array_equal(read(1), X[6].numpy())


@pytest.mark.parametrize("entry", [lambda path: path, lambda path: (str(path), 0)])
def test_files_are_compared_by_their_contents(tmp_path: Path, entry: Any) -> None:
    paths = [tmp_path / name for name in ("a", "b", "c")]
    for path, text in zip(paths, ("one", "two", "one"), strict=True):
        path.write_text(text)
    read = stored(Augmented([entry(path) for path in paths]))
    assert read is not None
    np.testing.assert_array_equal(read(0), read(2))
    assert (read(0) != read(1)).any()


def test_nothing_is_known_of_a_data_set_without_stored_rows() -> None:
    assert stored(Augmented(range(8))) is None
    assert stored(Augmented(["cat", "dog"])) is None
