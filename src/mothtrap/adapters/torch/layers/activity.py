"""Units that were active, or not saturated, at least once in the last sampled batches."""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

import torch
from torch import nn

from mothtrap.adapters.torch.job.naming import class_name
from mothtrap.statistics import torch as arithmetic

if TYPE_CHECKING:
    from mothtrap.capture.captures import Captures

SHARES = frozenset({"inactive", "saturated"})
"""Statistics that are computed here."""

BATCHES = 8
"""Sampled batches in which a unit must be inactive, or saturated, to count as such;
chosen by hand."""

LEAST_SLOPE = 0.01
"""A smooth function counts as saturated where its derivative is smaller than this: a hundredth of
the derivative of tanh at 0. Chosen by hand.
"""

_CHANNELS_FIRST = ("Conv", "BatchNorm", "InstanceNorm", "GroupNorm", "MaxPool", "AvgPool")


Ends = Callable[[Any], tuple[float, float]]


def _symmetric(high: float) -> Ends:
    return lambda _: (-high, high)


_SIGMOID_LOW: Final = (1 - math.sqrt(1 - 4 * LEAST_SLOPE)) / 2

ENDS: Final[Mapping[str, Ends]] = MappingProxyType(
    {
        # y (1 - y), 1 - y^2 and (1 - |y|)^2 are the derivatives.
        "Sigmoid": lambda _: (_SIGMOID_LOW, 1 - _SIGMOID_LOW),
        "Tanh": _symmetric(math.sqrt(1 - LEAST_SLOPE)),
        "Softsign": _symmetric(1 - math.sqrt(LEAST_SLOPE)),
        "Hardsigmoid": lambda _: (0.0, 1.0),
        "Hardtanh": lambda module: (module.min_val, module.max_val),
    }
)
"""Lower and upper output bounds beyond which a module is saturated, by class."""


class Activity:
    """Stores a mask of units for each sampled batch, module and statistic."""

    def __init__(self, captures: Captures[torch.Tensor]) -> None:
        self._captures = captures
        self._masks: dict[tuple[int, str], deque[torch.Tensor]] = {}
        self._looked: dict[tuple[int, str], float] = {}

    def look(
        self,
        tensor_id: int,
        output: torch.Tensor,
        module: nn.Module,
        previous: nn.Module | None,
        wanted: frozenset[str],
    ) -> None:
        """Record which units were inactive or saturated in this batch.

        Args:
            tensor_id: tensor id of the output.
            output: shape (batch, ..., units) or (batch, units, ...).
            module: module of the output. Only modules in `ENDS` can be saturated.
            previous: the preceding module, which distinguishes the two shapes.
            wanted: some of `SHARES`.
        """
        if output.ndim < 2 or not output.is_floating_point() or output.numel() == 0:
            return
        axis = unit_axis(output.ndim, previous)
        if "inactive" in wanted:
            self._note(tensor_id, "inactive", lambda: arithmetic.inactive_units(output, axis))
        ends = ENDS.get(class_name(module)) if "saturated" in wanted else None
        if ends is not None:
            low, high = ends(module)
            self._note(
                tensor_id,
                "saturated",
                lambda: arithmetic.saturated_units(output, axis, low, high),
            )

    def closed(self, _: int) -> None:
        """Report the recorded shares for the step; waits for an accelerator once."""
        looked, self._looked = self._looked, {}
        if not looked:
            return
        began = time.perf_counter()
        shares = [torch.stack(tuple(self._masks[key])).all(dim=0).float().mean() for key in looked]
        host = torch.stack([share.to(shares[0].device) for share in shares]).tolist()
        reporting_s = (time.perf_counter() - began) / len(looked)
        for ((tensor_id, statistic), cost_s), share in zip(looked.items(), host, strict=True):
            self._captures.add_row(tensor_id, {statistic: share}, cost_s + reporting_s)

    def _note(self, tensor_id: int, statistic: str, look: Callable[[], torch.Tensor]) -> None:
        began = time.perf_counter()
        mask, key = look(), (tensor_id, statistic)
        masks = self._masks.setdefault(key, deque(maxlen=BATCHES))
        if masks and (masks[0].shape, masks[0].device) != (mask.shape, mask.device):
            masks.clear()
        masks.append(mask)
        self._looked[key] = self._looked.get(key, 0.0) + time.perf_counter() - began


def unit_axis(ndim: int, previous: nn.Module | None) -> int:
    """Return the axis of the units: channels after convolutions, otherwise the last axis."""
    if previous is None:
        return 1 if ndim >= 4 else -1
    return 1 if type(previous).__name__.startswith(_CHANNELS_FIRST) else -1
