"""Statistics of units: the elements along one axis of a module's output."""

from __future__ import annotations

import torch

from mothtrap.statistics.torch.plain import local


def inactive_units(output: torch.Tensor, unit_axis: int) -> torch.Tensor:
    """Return the units whose outputs are never above zero.

    Args:
        output: a module's output, a strided real tensor of at least one axis.
        unit_axis: the axis of the units, e.g. 1 for images (batch, unit, height, width), -1 for a
            linear layer.

    Returns:
        bool, shape (units,), on the output's device: True if the largest value over all other axes
        is 0 or less. A unit with a NaN output is not inactive, nor is any unit if the output is
        empty.

    Raises:
        IndexError: the output has no such axis.
    """
    with torch.no_grad():
        units = _by_unit(output, unit_axis)
        others = tuple(range(1, units.ndim))
        if units.numel() == 0:
            return _none(units)
        return (units.amax(others) if others else units) <= 0


def saturated_units(output: torch.Tensor, unit_axis: int, low: float, high: float) -> torch.Tensor:
    """Return the units whose outputs are always at the ends of their range.

    Args:
        output: as for `inactive_units`.
        unit_axis: as for `inactive_units`.
        low: at or below this value, and ...
        high: at or above this value, a value counts as saturated.

    Returns:
        bool, shape (units,), on the output's device: True if every value is at most `low`, or at
        least `high`. A unit with a NaN output is not saturated, nor is any unit if the output is
        empty.

    Raises:
        IndexError: the output has no such axis.
    """
    with torch.no_grad():
        units = _by_unit(output, unit_axis)
        if units.numel() == 0:
            return _none(units)
        saturated = (units <= low) | (units >= high)
        return saturated.reshape(len(units), -1).all(dim=1)


def _by_unit(output: torch.Tensor, unit_axis: int) -> torch.Tensor:
    units = local(output).movedim(unit_axis, 0)
    if units.is_floating_point() and units.element_size() == 1:
        return units.to(torch.float32)  # torch cannot compare fp8
    return units


def _none(units: torch.Tensor) -> torch.Tensor:
    return torch.zeros(len(units), dtype=torch.bool, device=units.device)
