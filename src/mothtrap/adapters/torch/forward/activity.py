"""Which units of a rectifier were ever active: over the last sampled batches."""

from __future__ import annotations

import time
from collections import deque
from typing import TYPE_CHECKING

import torch
from torch import nn

from mothtrap.statistics import torch as arithmetic

if TYPE_CHECKING:
    from mothtrap.capture.recorder import Recorder

BATCHES = 8
"""Sampled batches that a unit must sleep through to count as inactive; chosen by hand."""

_CHANNELS_FIRST = ("Conv", "BatchNorm", "InstanceNorm", "GroupNorm", "MaxPool", "AvgPool")


class Activity:
    """Keeps one mask per sampled batch and rectifier."""

    def __init__(self, recorder: Recorder[torch.Tensor]) -> None:
        self._recorder = recorder
        self._masks: dict[int, deque[torch.Tensor]] = {}
        self._looked: dict[int, float] = {}

    def look(self, tensor_id: int, output: torch.Tensor, previous: nn.Module | None) -> None:
        """Note which units slept in this batch.

        Args:
            tensor_id: of the rectifier's output.
            output: shape (batch, ..., units) or (batch, units, ...).
            previous: the module that ran before, which tells the two apart.
        """
        began = time.perf_counter()
        if output.ndim < 2 or not output.is_floating_point() or output.numel() == 0:
            return
        mask = arithmetic.inactive_units(output, unit_axis(output.ndim, previous))
        masks = self._masks.setdefault(tensor_id, deque(maxlen=BATCHES))
        if masks and masks[0].shape != mask.shape:
            masks.clear()
        masks.append(mask)
        self._looked[tensor_id] = self._looked.get(tensor_id, 0.0) + time.perf_counter() - began

    def report(self) -> None:
        """Add the shares of the rectifiers looked at in this step."""
        for tensor_id, cost_s in self._looked.items():
            masks = self._masks[tensor_id]
            asleep = torch.stack(tuple(masks)).all(dim=0)
            share = float(asleep.float().mean())
            self._recorder.add_row(tensor_id, {"inactive": share}, cost_s)
        self._looked.clear()


def unit_axis(ndim: int, previous: nn.Module | None) -> int:
    """The axis of the units: channels after convolutions, else features, the last axis."""
    if previous is None:
        return 1 if ndim >= 4 else -1
    return 1 if type(previous).__name__.startswith(_CHANNELS_FIRST) else -1
