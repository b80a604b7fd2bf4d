"""Scales of a heatmap: from the value of a cell to one of 85 codes.

Shape suffixes: T = tensors, C = columns.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from mothtrap.core.window import Floats

ScaleName = Literal["log", "rank", "own", "ratio"]
SCALES: tuple[ScaleName, ...] = ("log", "rank", "own")
"""Scales of a single run; `ratio` compares one run with another."""
RATIOS = ("own", "ratio")
ZERO, FIRST, LAST = 1, 2, 254
"""Codes of the value 0, of the low end, and of the high end."""
EDGES = LAST - FIRST
APART = 3
"""Distance between the codes of a scale; chosen by hand: more shades are hard to distinguish, and
compress badly. The middle of a scale, a ratio of 1, keeps its code."""
SAMPLE = 200_000
"""Cells by which the ends are found; chosen by hand: a few milliseconds."""
TAIL = 0.002
"""Share of the cells at either end that may be beyond the scale, so that a single peak does not
dominate it."""
LEAST_RATIO = 2.0
"""Minimum range of the scales `own` and `ratio`, on either side; chosen by hand: smaller ratios are
insignificant."""

Codes = npt.NDArray[np.uint8]


@dataclass(frozen=True, slots=True, eq=False)
class Scaled:
    """Values on a scale.

    Attributes:
        name: name of the scale.
        size_TC: the number that a code represents: the magnitude, or its ratio to the tensor's
            median. NaN if there is none.
        low, high: the ends of the scale.
        edges: edges between codes, ascending; of `rank` only.
    """

    name: ScaleName
    size_TC: Floats
    low: float
    high: float
    edges: Floats

    def distance(self, tensors: slice) -> Floats:
        """Return how extreme each cell is, shape (T, C); -1 if there is no value."""
        size_TC = self.size_TC[tensors]
        if self.name in RATIOS:
            with np.errstate(divide="ignore"):
                size_TC = np.abs(np.log(size_TC))
        found: Floats = np.where(np.isnan(size_TC), -1.0, size_TC)
        return found

    def furthest(self, tensors: slice) -> Floats:
        """Return the index of the most extreme tensor in each column, shape (C,)."""
        size_TC = self.size_TC[tensors]
        place_C = np.argmax(self.distance(tensors), axis=0)
        found: Floats = np.take_along_axis(size_TC, place_C[None], axis=0)[0]
        return found

    def codes(self, size_C: Floats) -> Codes:
        """Return the codes of numbers; 0 for a missing number."""
        if self.name == "rank":
            place_C = np.searchsorted(self.edges, size_C, side="right").astype(np.float64)
        else:
            with np.errstate(divide="ignore", invalid="ignore"):
                span = np.log(self.high) - np.log(self.low)
                place_C = EDGES * (np.log(size_C) - np.log(self.low)) / span
        place_C = APART * np.rint(place_C / APART)
        place_C = np.clip(np.nan_to_num(place_C, neginf=0, posinf=EDGES), 0, EDGES)
        found: Codes = (FIRST + place_C).astype(np.uint8)
        found[size_C == 0] = ZERO
        found[np.isnan(size_C)] = 0
        return found


def scaled(value_TC: npt.NDArray[np.float32], name: ScaleName) -> Scaled:
    """Return values on a scale fitted to their range.

    Args:
        value_TC: NaN if there is no value.
        name: `log` of the magnitude; `rank` among all; `own`: ratio to the tensor's own median;
            `ratio`: the value is a ratio.
    """
    size_TC = np.abs(value_TC).astype(np.float64)
    if name == "own":
        size_TC = size_TC / _medians(size_TC)[:, None]
    some = size_TC[np.isfinite(size_TC) & (size_TC > 0)]
    some = np.sort(some[:: 1 + len(some) // SAMPLE])
    low, high = (1.0, 1.0) if not len(some) else _ends(some, name)
    if name in RATIOS:
        ratio = max(high, 1 / low, LEAST_RATIO)
        low, high = 1 / ratio, ratio
    elif low == high:
        low, high = low / LEAST_RATIO, high * LEAST_RATIO
    shares = (np.arange(EDGES) + 0.5) / EDGES
    edges = np.quantile(some, shares) if name == "rank" and len(some) else np.empty(0)
    return Scaled(name, size_TC, float(low), float(high), edges)


def _ends(some: Floats, name: ScaleName) -> tuple[float, float]:
    cut = 0 if name == "rank" else int(TAIL * len(some))
    return float(some[cut]), float(some[len(some) - 1 - cut])


def _medians(size_TC: Floats) -> Floats:
    """Medians of the positive values of each tensor; NaN if there are none."""
    found = np.full(len(size_TC), np.nan)
    positive_TC = np.where(size_TC > 0, size_TC, np.nan)
    known_T = ~np.isnan(positive_TC).all(axis=1)
    found[known_T] = np.nanmedian(positive_TC[known_T], axis=1)
    return found
