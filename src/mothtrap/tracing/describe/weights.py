"""The weights of layers before the first step, and units that remain equal."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from mothtrap.core.facts.layers import IdenticalUnits, InitialWeights
from mothtrap.tracing.describe import layer_numbers

Array = npt.NDArray[Any]

MAX_LAYERS: Final = 128
"""Maximum number of layers whose initial weights are reported."""
MAX_VALUES: Final = 4096
"""Maximum number of values of a weight or gradient for its size; chosen by hand: 2 % accuracy."""
STEPS: Final = frozenset({*range(12), 16, 24, 32, 64, 128, 256})
"""Steps at which equal units are compared again; chosen by hand."""
ROUNDING: Final = 1e-5
"""Differences between units below this share of the largest value count as rounding."""


@dataclass(frozen=True, slots=True)
class Weight:
    """A weight at a step.

    Attributes:
        step: Step in progress.
        name: Name of the weight.
        layer: Layer of the weight.
        layer_type: Type of the layer; "" if unknown.
        units: Number of units of the layer.
        location: Line that created the layer.
    """

    step: int
    name: str
    layer: str
    layer_type: str
    units: int
    location: str | None = None


class Sizes(NamedTuple):
    """Root mean square and deviation of a weight, and the range of most of its gradient."""

    rms: float
    std: float
    gradient_range: float | None


def initial(weight: Weight, sizes: Sizes, fan_in: int) -> InitialWeights:
    """Return the fact about a weight before its first step; `fan_in`: inputs of each unit."""
    return InitialWeights(
        step=weight.step,
        name=weight.name,
        layer=weight.layer,
        layer_type=weight.layer_type,
        units=weight.units,
        fan_in=fan_in,
        rms=sizes.rms,
        std=sizes.std,
        gradient_range=sizes.gradient_range,
        location=weight.location,
    )


def identical(
    weight: Weight, *, looks: int, zero: bool, gradient_zero: bool, moved: bool
) -> IdenticalUnits:
    """Return the fact about units that are still equal.

    Args:
        weight: weight with equal units.
        looks: number of comparisons so far, including this one.
        zero: all its values are 0.
        gradient_zero: all its gradients are 0.
        moved: a step has changed some weight.
    """
    return IdenticalUnits(
        step=weight.step,
        name=weight.name,
        layer=weight.layer,
        layer_type=weight.layer_type,
        units=weight.units,
        looks=looks,
        zero=zero,
        gradient_zero=gradient_zero,
        moved=moved,
        location=weight.location,
    )


def sizes_of(values: Array, gradient: Array | None) -> Sizes:
    """Return the sizes of a weight of any shape, from a sample of its values."""
    sample = _sample(values)
    return Sizes(
        rms=float(np.sqrt(np.square(sample).mean())),
        std=float(sample.std()),
        gradient_range=None if gradient is None else layer_numbers.central_range(_sample(gradient)),
    )


def are_same(values: Array, axis: int, *, exact: bool = False) -> bool:
    """Return whether all units of a weight or gradient are equal, up to rounding.

    Args:
        values: array with at least one axis.
        axis: axis of the units.
        exact: rounding counts as a difference.
    """
    if values.shape[axis] < 2:
        return False
    units_UI = np.moveaxis(values, axis, 0).reshape(values.shape[axis], -1).astype(np.float64)
    if exact:
        return bool((units_UI == units_UI[:1]).all())
    return bool(np.abs(units_UI - units_UI[:1]).max() <= ROUNDING * np.abs(units_UI).max())


def _sample(values: Array) -> Array:
    flat_N = values.reshape(-1)
    return flat_N[:: max(1, flat_N.size // MAX_VALUES)].astype(np.float64)
