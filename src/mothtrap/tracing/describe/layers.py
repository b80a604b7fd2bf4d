"""Facts about the input data of layers and the outputs of models.

`about` are the fields of a fact that the adapter provides: step, names and lines.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from mothtrap.core.facts.layers import DataTaken, OutputSpread
from mothtrap.tracing.describe import layer_numbers
from mothtrap.tracing.describe.layer_numbers import Array


def data_taken(values: Array, *, grid: bool, **about: Any) -> DataTaken | None:
    """Return the fact for the input data of a layer; None if it cannot be described.

    Args:
        values: shape (batch, ..., features).
        grid: the layer is a convolution, and its features are channels.
        about: other fields.
    """
    numbers = layer_numbers.data_taken(values, grid=grid)
    return None if numbers is None else data_fact(numbers, grid=grid, **about)


def data_fact(numbers: Mapping[str, Any], *, grid: bool = False, **about: Any) -> DataTaken:
    """Return the fact for input data whose numbers are known (`layer_numbers.data_taken`)."""
    return DataTaken(grid=grid, **numbers, **about)


def output_spread(
    values: Array, *, inputs_differ: bool | None, place: str = "", **about: Any
) -> OutputSpread | None:
    """Return the fact for an output of a model; None if its rows cannot be compared.

    Args:
        values: shape (batch, ...).
        inputs_differ: whether the rows of the model's inputs differ; None if unknown.
        place: identifies one of several outputs.
        about: other fields.
    """
    numbers = layer_numbers.spread(values)
    if numbers is None:
        return None
    shape = tuple(values.shape)
    return spread_fact(numbers, inputs_differ=inputs_differ, place=place, shape=shape, **about)


def spread_fact(numbers: tuple[float, float, float], **about: Any) -> OutputSpread | None:
    """Return the fact for an output whose numbers are known (`layer_numbers.spread`)."""
    if not all(math.isfinite(number) for number in numbers):
        return None
    between, rms, largest = numbers
    return OutputSpread(spread=between, rms=rms, largest=largest, **about)
