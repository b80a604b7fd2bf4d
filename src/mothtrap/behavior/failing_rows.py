"""Rows and their predictions as plain values, for the record of failing predictions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from mothtrap.behavior.assertion import as_array

MAX_VALUES = 200
"""Values of a row or a prediction that are recorded; chosen by hand: 4 kB."""
MAX_TEXT = 200
"""Characters of a text that are recorded; chosen by hand."""


def described_rows(X: Any, predictions: Any, rows: Sequence[int]) -> Iterator[tuple[Any, Any]]:
    """Yield the values by column, and the prediction, of some rows.

    Rows without columns become lists of values. Only the first 200 values of a row are kept.
    """
    outputs = as_array(predictions)
    columns = _columns(X)
    values = None if columns is not None or X is None else as_array(X)
    for row in rows:
        described: Any = None
        if columns is not None:
            described = {str(name): _plain(column[row]) for name, column in columns[:MAX_VALUES]}
        elif values is not None and values.ndim:
            described = _plain(values[row])
        yield described, _plain(outputs[row])


def _columns(X: Any) -> list[tuple[Any, Any]] | None:
    """Return the names and values of columns; None if there are none."""
    if isinstance(X, Mapping):
        return [(name, as_array(values)) for name, values in X.items()]
    if hasattr(X, "columns"):
        return [(name, np.asarray(X[name])) for name in X.columns]
    return None


def _plain(value: Any) -> Any:
    """Convert a value to a type that JSON supports."""
    if isinstance(value, np.ndarray) and value.ndim:
        return [_plain(each) for each in value.ravel()[:MAX_VALUES]]
    if isinstance(value, np.generic | np.ndarray):
        value = value.item()
    if isinstance(value, float) and value != value:
        return None
    if isinstance(value, int | float | bool) or value is None:
        return value
    return str(value)[:MAX_TEXT]
