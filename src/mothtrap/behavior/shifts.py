"""Difference between the distributions of two groups of rows, as an effect and a p-value.

Shape suffixes: R = rows.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from mothtrap.behavior.table import Column

Floats = npt.NDArray[np.float64]

MAX_LEVELS = 50
"""Number of levels of a category that are compared; all others count as one level. Chosen by
hand."""


@dataclass(frozen=True, slots=True)
class Shift:
    """Difference of one column: effect from 0 to 1, p-value, and descriptions of both groups."""

    name: str
    effect: float
    p: float
    words: str


def shift_of(before: Column, after: Column) -> Shift:
    """Compare a column in two groups of rows.

    Numbers are compared by the Kolmogorov distance, categories by the total variation distance,
    and missing values by the difference of their shares. The largest effect counts.
    """
    gone = [float(each.missing_R.mean()) for each in (before, after)]
    counts = [[int(m.sum()), len(m) - int(m.sum())] for m in (before.missing_R, after.missing_R)]
    missing = Shift(
        before.name,
        abs(gone[1] - gone[0]),
        chi_square(np.array(counts)),
        f"missing in {100 * gone[0]:.1f} %, now in {100 * gone[1]:.1f} %",
    )
    if before.number_R is not None and after.number_R is not None:
        found = _of_numbers(before.name, before.known_R, after.known_R)
    else:
        found = _of_levels(before, after)
    return max(found, missing, key=lambda each: each.effect)


def kolmogorov(first_R: Floats, second_R: Floats) -> tuple[float, float]:
    """Return the Kolmogorov distance of two samples and its p-value (Smirnov, 1948)."""
    from scipy.special import kolmogorov as survival

    if not len(first_R) or not len(second_R):
        return 0.0, 1.0
    values = np.concatenate([first_R, second_R])
    shares = [
        np.searchsorted(np.sort(each), values, side="right") / len(each)
        for each in (first_R, second_R)
    ]
    distance = float(np.abs(shares[0] - shares[1]).max())
    root = math.sqrt(len(first_R) * len(second_R) / len(values))
    return distance, float(survival(root * distance))


def chi_square(counts: npt.NDArray[np.int64]) -> float:
    """Return the p-value that both rows of a count table (2, levels) have equal shares."""
    from scipy.special import chdtrc

    counts = counts[:, counts.sum(axis=0) > 0].astype(float)
    if counts.shape[1] < 2 or not counts.sum(axis=1).all():
        return 1.0
    expected = np.outer(counts.sum(axis=1), counts.sum(axis=0)) / counts.sum()
    return float(chdtrc(counts.shape[1] - 1, ((counts - expected) ** 2 / expected).sum()))


def _of_numbers(name: str, before_R: Floats, after_R: Floats) -> Shift:
    effect, p = kolmogorov(before_R, after_R)
    middles = [float(np.median(each)) if len(each) else math.nan for each in (before_R, after_R)]
    return Shift(name, effect, p, f"median {middles[0]:.4g}, now {middles[1]:.4g}")


def _of_levels(before: Column, after: Column) -> Shift:
    texts = [_texts(each) for each in (before, after)]
    names, counts = np.unique(np.concatenate(texts), return_counts=True)
    if not len(names) or not all(len(each) for each in texts):
        return Shift(before.name, 0.0, 1.0, "")
    kept = names[np.argsort(-counts, kind="stable")[:MAX_LEVELS]]
    table = np.array(
        [[*((each == name).sum() for name in kept), (~np.isin(each, kept)).sum()] for each in texts]
    )
    shares = table / table.sum(axis=1, keepdims=True)
    gap = shares[1] - shares[0]
    place = int(np.abs(gap).argmax())
    name = str(kept[place]) if place < len(kept) else "other values"
    words = f"{name} {100 * shares[0][place]:.1f} %, now {100 * shares[1][place]:.1f} %"
    return Shift(before.name, float(np.abs(gap).sum() / 2), chi_square(table), words)


def _texts(column: Column) -> npt.NDArray[np.str_]:
    """Return the values of a column that are there, as texts."""
    if column.code_R is None:
        return column.known_R.astype(str)
    return np.array(column.levels, str)[column.code_R[column.code_R >= 0]]
