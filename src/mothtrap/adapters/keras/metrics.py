"""Metrics of Keras as plain numbers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import keras


def numbers_in(values: Mapping[str, Any]) -> dict[str, float]:
    """Return the metrics with a single value; metrics of one output are `output_metric`."""
    found: dict[str, float] = {}
    for name, value in _flat(values):
        array = keras.ops.convert_to_numpy(value)
        if array.size == 1:
            found[name] = float(array)
    return found


def _flat(values: Any, before: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in values.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{before}{name}_")
        else:
            yield f"{before}{name}", value
