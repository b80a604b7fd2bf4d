"""Statistics of units: the elements along one axis of a module's output."""

from __future__ import annotations

import torch

from mothtrap.statistics.torch.plain import local


def inactive_units(output: torch.Tensor, unit_axis: int) -> torch.Tensor:
    """Tell which units put out nothing above zero.

    Args:
        output: a module's output, a strided real tensor of at least one axis.
        unit_axis: the axis along which the units lie, e.g. 1 for images (batch, unit,
            height, width), -1 for a linear layer.

    Returns:
        bool, shape (units,), on the output's device: True where the largest value over all
        other axes is 0 or less. A unit that put out NaN is not inactive, nor is any when
        the output is empty: nothing was seen of them.

    Raises:
        IndexError: the output has no such axis.
    """
    with torch.no_grad():
        values = local(output)
        units = values.movedim(unit_axis, 0)
        if values.numel() == 0:
            return torch.zeros(len(units), dtype=torch.bool, device=values.device)
        others = tuple(axis for axis in range(1, units.ndim))
        return (units.amax(others) if others else units) <= 0
