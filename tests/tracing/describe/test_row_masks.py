from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import numpy as np

from mothtrap.tracing.describe.row_masks import held_out_rows

ROWS = 100


def view(value: Any) -> np.ndarray | None:
    return value if isinstance(value, np.ndarray) else None


def mask(*rows: range) -> np.ndarray:
    return np.isin(np.arange(ROWS), np.concatenate(rows))


def found() -> dict[str, int]:
    """Return the masks among the variables of the caller, and their numbers of rows."""
    return {one.name: len(one.rows) for one in held_out_rows(sys._getframe(1), ROWS, view)}


def test_masks_of_evaluation_rows_are_found() -> None:
    data = SimpleNamespace(train_mask=mask(range(20)), test_mask=mask(range(50, 100)))
    assert found() == {"data.test_mask": 50}
    del data


def test_indices_of_evaluation_rows_are_found() -> None:
    idx_train, idx_val = np.arange(20), np.arange(20, 60)
    assert found() == {"idx_val": 40}
    del idx_train, idx_val


def test_other_variables_are_no_masks() -> None:
    train_mask, test_flags = mask(range(20)), mask(range(10, 30))  # rows in common
    y_test, test_indices = np.zeros(50, int), np.arange(80, 120)  # labels; of larger data
    validated = mask(range(ROWS))
    assert found() == {}
    del train_mask, test_flags, y_test, test_indices, validated


def test_evaluation_rows_alone_are_not_enough() -> None:
    test_mask = mask(range(50, 100))
    assert found() == {}
    del test_mask
