"""Rows of a loader whose values change in each pass by the same factor and offset.

A few samples are identified by the indices that the sampler drew. In each pass, their values are
compared with those of the previous pass. If `new = scale * old + offset`, with the same two numbers
for all samples, a transformation works in place on stored data. Augmentation draws different
numbers for each sample, so that no line fits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import torch

from mothtrap.adapters.torch.data.sampled_rows import LEAST_SAMPLES, VALUES, Batch, SampledRows
from mothtrap.core.facts.data import RowsRescaled
from mothtrap.statistics.torch.in_place import as_array

Floats = npt.NDArray[np.float64]
LEAST_VALUES = 4
"""Minimum number of values for fitting a line; chosen by hand."""
RESIDUAL = 1e-3
"""Largest distance from the line, in standard deviations; slightly above float32 rounding."""
AGREEMENT = 0.01
"""Largest relative difference between the scales of samples, and of two passes. Chosen by hand."""
CHANGE = 0.02
"""Smallest change of scale, or of the mean in standard deviations, that counts. Chosen by hand."""


@dataclass(slots=True)
class _Change:
    scales: list[float] = field(default_factory=list)
    shifts: list[float] = field(default_factory=list)


class RescaledRows(SampledRows):
    """Compares some samples of one loader between passes.

    Args:
        report: function that receives the fact, once.
    """

    def __init__(self, report: Callable[[RowsRescaled], None]) -> None:
        super().__init__()
        self._report = report
        self._values: dict[int, tuple[int, Floats]] = {}
        self._changes: dict[int, _Change] = {}

    def _look(self, batch: Batch) -> None:
        found = _rows(batch.tensors, batch.rows)
        if found is None:
            return
        place, values_RE = found
        for row, index in batch.followed:
            self._compare(index, batch.pass_number, _some(values_RE[row]))
        self._judge(place, batch.pass_number, batch.step)

    def _compare(self, index: int, pass_number: int, values: Floats) -> None:
        before = self._values.get(index)
        self._values[index] = pass_number, values
        if before is None or before[0] != pass_number - 1:
            return
        line = _line(before[1], values)
        if line is not None:
            change = self._changes.setdefault(pass_number, _Change())
            change.scales.append(line[0])
            change.shifts.append(line[1])

    def _judge(self, place: str, pass_number: int, step: int) -> None:
        """Report two passes in which all samples changed by the same scale."""
        now, before = self._changes.get(pass_number), self._changes.get(pass_number - 1)
        if now is None or before is None:
            return
        scale, earlier = _common(now), _common(before)
        if scale is None or earlier is None or abs(scale / earlier - 1) > AGREEMENT:
            return
        self._done = True
        self._report(
            RowsRescaled(
                step=step,
                loader="",
                tensor=place,
                scale=scale,
                offset=float(np.median(now.shifts)),
                samples=len(now.scales),
                passes=pass_number,
                first_step=self._began.get(pass_number - 1, 0),
            )
        )


def _rows(
    tensors: Sequence[tuple[str, torch.Tensor]], rows: int
) -> tuple[str, npt.NDArray[np.floating]] | None:
    """Return the first tensor of floating-point rows, with its place in the batch."""
    for place, tensor in tensors:
        fits = tensor.ndim > 1 and tensor.shape[0] == rows and tensor.is_cpu
        if fits and tensor.dtype in (torch.float32, torch.float64):
            return place, as_array(tensor.detach().reshape(rows, -1))
    return None


def _some(values_E: npt.NDArray[np.floating]) -> Floats:
    """Return up to `VALUES` values, evenly spread over a row."""
    step = max(1, len(values_E) // VALUES)
    return np.array(values_E[::step][:VALUES], dtype=np.float64)


def _line(old: Floats, new: Floats) -> tuple[float, float] | None:
    """Return scale and offset of `new = scale * old + offset`; None if no line fits.

    The offset is in standard deviations of `old`.
    """
    if len(old) != len(new) or len(old) < LEAST_VALUES:
        return None
    spread, spread_now = float(old.std()), float(new.std())
    if not spread or not spread_now or not np.isfinite(spread_now):
        return None
    scale = float(((old - old.mean()) * (new - new.mean())).mean()) / spread**2
    offset = float(new.mean()) - scale * float(old.mean())
    apart = np.abs(scale * old + offset - new).max()
    return (scale, offset / spread) if apart <= RESIDUAL * spread_now else None


def _common(change: _Change) -> float | None:
    """Return the scale that enough samples share; None if they differ or nothing changed."""
    if len(change.scales) < LEAST_SAMPLES:
        return None
    scales, shifts = np.array(change.scales), np.array(change.shifts)
    scale = float(np.median(scales))
    if not scale or np.abs(scales / scale - 1).max() > AGREEMENT:
        return None
    changed = abs(scale - 1) > CHANGE or float(np.abs(shifts).min()) > CHANGE
    return scale if changed else None
