"""A slow and simple reference: one row of statistics in plain Python and float64."""

from __future__ import annotations

import math

import numpy as np

from mothtrap.statistics.summary import FIELDS, Floats

VALUE_STATISTICS = (
    "count", "nan", "inf", "zero", "min", "max", "mean", "std", "abs_mean", "abs_max", "l2",
)  # fmt: skip


def expected(values: np.ndarray) -> Floats:
    """Return the row of real values, element by element."""
    elements = [float(v) for v in np.asarray(values).reshape(-1)]
    finite = [v for v in elements if math.isfinite(v)]
    row = dict.fromkeys(FIELDS, math.nan)
    row["count"] = len(elements)
    row["nan"] = sum(math.isnan(v) for v in elements)
    row["inf"] = sum(math.isinf(v) for v in elements)
    row["zero"] = sum(v == 0 for v in elements)
    row["deviation_l2"] = row["abs_sum"] = row["l2"] = 0.0
    if finite:
        row["min"], row["max"] = min(finite), max(finite)
        scale = max(map(abs, finite)) or 1.0  # sums of values next to the largest overflow
        row["mean"] = scale * (math.fsum(v / scale for v in finite) / len(finite))
        row["deviation_l2"] = math.hypot(*(v - row["mean"] for v in finite))
        row["abs_sum"] = _sum(abs(v) for v in finite)
        row["l2"] = math.hypot(*finite)
    return np.array([row[name] for name in FIELDS])


def _sum(values) -> float:
    try:
        return math.fsum(values)
    except OverflowError:
        return math.inf


def assert_close(actual: Floats, wanted: Floats, *, relative: float = 1e-5) -> None:
    """Compare two rows as promised: `mean` relative to the mean magnitude, others to themselves."""
    assert actual.shape == wanted.shape == (len(FIELDS),)
    got, want = (dict(zip(FIELDS, row.tolist(), strict=True)) for row in (actual, wanted))
    finite = want["count"] - want["nan"] - want["inf"]
    for name in FIELDS:
        # Elements that round to equal ones have a deviation that consists of rounding errors.
        slack = {
            "mean": relative * want["abs_sum"] / finite if finite else 0.0,
            "deviation_l2": relative * want["deviation_l2"] + 1e-15 * want["l2"],
        }.get(name, relative * abs(want[name]))
        if name in ("count", "nan", "inf", "zero"):
            slack = 0.0
        same = got[name] == want[name] or (math.isnan(got[name]) and math.isnan(want[name]))
        assert same or abs(got[name] - want[name]) <= slack, (name, got, want)


def counted_exponents(values: np.ndarray) -> np.ndarray:
    """Count values by sign and power of two, one by one; int64, shape (2, 64)."""
    found = np.zeros((2, 64), np.int64)
    for value in values.reshape(-1).tolist():
        if math.isfinite(value) and value:
            power = math.frexp(value)[1] - 1
            found[int(value > 0), min(max(power, -40), 23) + 40] += 1
    return found
