"""The course of a loss since its learning rate was reached."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from mothtrap.core.window import Floats, Ints, Series
from mothtrap.rules._weights import Ratios

JUMP_STEPS = 50
"""A jump of the loss within this number of steps after the rate was reached is attributed to it."""
SETTLED_STEPS = 50
"""Number of latest losses whose median is the current level; chosen by hand."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Course:
    """The loss since the current learning rate was reached.

    `begin` is that step, `place` its index, and `start` the loss before its update. `level_S` is
    the lowest smoothed loss so far, at least a tenth of `start`.
    """

    steps_S: Ints
    loss_S: Floats
    begin: int
    place: int
    start: float
    level_S: Floats
    rate: float
    rated_S: Ints
    rate_S: Floats

    def sampled(self, ratios: Ratios, first: int, last: int) -> Floats:
        """Return rows of (step, median ratio) of the samples between two steps.

        If `begin` was not sampled, the last sample before it is used, scaled by the change of
        the learning rate since then.
        """
        inside = (ratios.steps_S >= first) & (ratios.steps_S <= last)
        rows_R2 = np.column_stack([ratios.steps_S[inside], ratios.middle()[inside]])
        earlier = np.flatnonzero(ratios.steps_S < first)
        if first != self.begin or not len(earlier):
            return rows_R2
        row = int(earlier[-1])
        raised = self._rate_at(first) / max(self._rate_at(int(ratios.steps_S[row])), 1e-300)
        return np.vstack([[first, ratios.middle()[row] * raised], rows_R2])

    def _rate_at(self, step: int) -> float:
        place = int(np.searchsorted(self.rated_S, step, side="right")) - 1
        return float(self.rate_S[max(0, place)])

    def jump(self) -> float:
        """Return the highest smoothed loss soon after the rate was reached / `start`."""
        part_S = self.loss_S[self.place + 1 : self.place + 1 + JUMP_STEPS]
        return float(_smooth(part_S)[1:-1].max() / self.start) if len(part_S) >= 3 else 0.0

    def highest(self) -> float:
        """Return the highest loss soon after the rate was reached / `start`."""
        part_S = self.loss_S[self.place + 1 : self.place + 1 + JUMP_STEPS]
        return float(part_S.max() / self.start) if len(part_S) else 0.0

    def level(self) -> float:
        """Return the current level of the loss / `start`."""
        return float(np.median(self.loss_S[-SETTLED_STEPS:]) / self.start)

    def after(self) -> int:
        """Return the number of losses since the highest one soon after the rate was reached."""
        part_S = self.loss_S[self.place + 1 : self.place + 1 + JUMP_STEPS]
        return len(self.loss_S) - self.place - 2 - int(np.argmax(part_S)) if len(part_S) else 0


def course_of(series: Series, rated_S: Ints, rate_S: Floats) -> Course:
    """Return the course of a loss.

    Args:
        series: the loss.
        rated_S: steps with a known learning rate.
        rate_S: learning rates of these steps.
    """
    reached = int(rated_S[int(np.argmax(rate_S >= 0.5 * rate_S.max()))])
    steps_S, loss_S = series.steps_S, series.values_S
    place = min(int(np.searchsorted(steps_S, reached)), len(loss_S) - 1)
    smooth_S = _smooth(np.where(np.isfinite(loss_S), loss_S, np.inf))
    lowest = int(np.argmin(smooth_S[: place + 1]))
    if smooth_S[place] >= 1.5 * smooth_S[lowest] and smooth_S[lowest] < 0.9 * smooth_S[0]:
        place = lowest  # the loss rose already during warm-up
    before_S = loss_S[max(0, place - 4) : place + 1]
    before_S = before_S[np.isfinite(before_S)]
    start = float(np.median(before_S)) if len(before_S) else math.nan
    if place and np.isfinite(loss_S[0]):
        start = max(start, 0.5 * float(loss_S[0]))  # a very low loss rises easily
    level_S = np.maximum(np.minimum.accumulate(smooth_S), 0.1 * start)
    return Course(
        steps_S=steps_S,
        loss_S=loss_S,
        begin=int(steps_S[place]) if place else reached,
        place=place,
        start=start,
        level_S=np.minimum(level_S, start),
        rate=float(rate_S.max()),
        rated_S=rated_S,
        rate_S=rate_S,
    )


def _smooth(values_S: Floats) -> Floats:
    """Return medians of 3 values; shape (S,), ends repeated."""
    medians: Floats = np.median(sliding_window_view(np.pad(values_S, 1, mode="edge"), 3), axis=1)
    return medians
