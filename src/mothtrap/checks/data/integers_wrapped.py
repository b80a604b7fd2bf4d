"""PRE312: pictures of bytes were read as signed numbers."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from mothtrap.checks import tables
from mothtrap.checks.check import Check
from mothtrap.checks.subject import Array, Rows, Subject
from mothtrap.core.errors import NotApplicable, NotEnoughData
from mothtrap.core.found import Found
from mothtrap.core.frozen import frozen
from mothtrap.core.thresholds import threshold

LEVELS = 256
"""Values of a byte."""
NEAR = 48
"""Levels between two neighbors of a smooth area; chosen by hand."""
EDGE = 4
"""Levels near a seam that are ignored, because black and white pixels are often neighbors."""
MOST_ROWS = 400


@frozen
class IntegersWrapped(Check):
    """Image bytes were read as signed numbers.

    What it detects:
        Pictures whose values lie between -128 and 127, times a constant, and in which the bright
        half has become negative: neighboring pixels jump from 127 to -128 where the picture is
        smooth.

    Why it matters:
        Bright areas become darker than black. The model has to cope with a jump in the middle of
        the brightness range, and correctly read images look different to it.

    Fires:
        Error when at least `pairs` pairs of neighboring pixels cross from 127 to -128 by a small
        step, and `times` as many as cross from 0 to -1.

    Stays quiet:
        Pictures that were shifted afterwards, such as by a mean; values that are not evenly spaced;
        pictures without smooth areas, such as digits of 8 x 8 pixels; tables. Swapped color
        channels are not detected.

    What to do:
        - Read the file as unsigned bytes: `numpy.uint8`, not `numpy.int8`.

    Example:
        pixels = np.frombuffer(data, dtype=np.int8)

    References:
        https://numpy.org/doc/stable/user/basics.types.html
    """

    code = "PRE312"
    title = "bytes are read as signed numbers"
    uses = ("datasets",)
    passed = "no image has wrapped bytes"
    costs = 3
    pairs: int = threshold(50, unit="pairs of pixels", source="chosen by hand")
    times: float = threshold(1.5, unit="times the pairs around 0", source="chosen by hand")

    def run(self, subject: Subject) -> Iterable[Found]:
        """Count the jumps between neighboring pixels from 127 to -128, and from 0 to -1."""
        for data in subject.datasets:
            rows = tables.read(data, subject, MOST_ROWS)
            levels = _levels(rows)
            if levels is None:
                continue
            middle, zero = _crossings(levels)
            if middle >= self.pairs and middle > self.times * zero:
                yield Found(
                    step=0,
                    severity="error",
                    message=f"images of {data.name} have bytes that were read as signed numbers: "
                    f"{middle:,} pairs of neighboring pixels jump from 127 to -128, and {zero:,} "
                    "from 0 to -1",
                    location=data.location,
                    evidence={"middle": middle, "zero": zero},
                )
                return


def _levels(rows: Rows) -> Array | None:
    """Return the pictures in levels from -128 to 127, shape (rows, ..., height, width).

    None if they have no such levels.

    Raises:
        NotApplicable: the data set has no pictures.
        NotEnoughData: no row could be read.
    """
    if not rows.indices:
        raise NotEnoughData(
            "images of {data.name} have bytes that were read as signed numbers: {middle:,} pairs "
            "of neighboring pixels jump from 127 to -128, and {zero:,} from 0 to -1"
        )
    pictures = [one for one in rows.inputs if one.ndim > 2 and one.dtype.kind in "biuf"]
    if not pictures:
        raise NotApplicable("the inputs are not images")
    values = np.unique(pictures[0])
    if not 3 <= len(values) <= LEVELS or values[0] >= 0 or not np.isfinite(values).all():
        return None
    quantum = 1.0 if values.dtype.kind in "biu" else _quantum(values)
    levels = pictures[0].astype(float) / quantum
    whole = np.rint(levels)
    in_range = whole.min() >= -LEVELS // 2 and whole.max() < LEVELS // 2
    return whole if in_range and np.abs(levels - whole).max() < 0.05 else None


def _quantum(values: Array) -> float:
    """Return the step of evenly spaced values: that which makes the lowest value -128 or above.

    Pictures need not have every level, so the least distance between two values may be a multiple.
    """
    least = float(np.diff(values.astype(float)).min())
    widest = float(np.abs(values).max())
    steps = (least / n for n in range(1, LEVELS))
    fitting = (q for q in steps if widest / q > LEVELS / 2 - EDGE and _is_even(values, q))
    return next(fitting, least)


def _is_even(values: Array, quantum: float) -> bool:
    levels = values.astype(float) / quantum
    return bool(np.abs(levels - np.rint(levels)).max() < 0.05)


def _crossings(levels: Array) -> tuple[int, int]:
    """Return how many neighbors cross from 127 to -128 by a small step, and how many cross 0."""
    middle = zero = 0
    for axis in (-1, -2):
        first = np.moveaxis(levels, axis, 0)
        before, after = first[:-1], first[1:]
        low, high = np.minimum(before, after), np.maximum(before, after)
        signs = (low < 0) & (high >= 0)
        round_ = signs & (LEVELS - (high - low) <= NEAR)
        plain = signs & (high - low <= NEAR)
        gray = (low > EDGE - LEVELS // 2) & (high < LEVELS // 2 - EDGE)
        middle += int((round_ & gray).sum())
        zero += int((plain & (low < -EDGE) & (high > EDGE)).sum())
    return middle, zero
