"""Numbers of a layer, from arrays on the host: data, sizes, units, spread.

Shape suffixes: R = rows, F = features or units. Every function reads a sample of its argument, and
returns None if the argument cannot be described.
"""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from mothtrap.statistics.products import between
from mothtrap.tracing.describe.quiet_numpy import quiet

Array = npt.NDArray[Any]

MAX_ROWS: Final = 512
MAX_VALUES: Final = 1 << 16
"""Approximate number of inspected values of an array."""
MAX_FEATURES: Final = 256
"""Maximum number of features that are reported individually."""
MAX_CORRELATED: Final = 128
MIN_CORRELATED_ROWS: Final = 16
MAX_UNITS: Final = 32
_POSITIVE: Final = (1.0, 2.0, 3.0, 4.0, 4.6, 5.0, 6.0, 7.0, 8.0, 9.5, 12.0, 14.0, 17.0, 20.0, 23.0)
EDGES: Final = (*(-edge for edge in reversed(_POSITIVE)), 0.0, *_POSITIVE)
"""Bounds of the intervals in which inputs of sigmoid and tanh are counted. They include the points
where the derivative of tanh or sigmoid falls below 1e-2 (3.0, 4.6) and 1e-7 (9.5, 17).
"""
LEAST_SLOPE: Final = 0.01
"""Derivative below which a smooth function counts as saturated."""


def rows_of(values: Array) -> Array | None:
    """Return a batch as float64 (rows, features), features last; None if it has no batch axis."""
    if values.ndim < 2 or not values.size:
        return None
    features = values.shape[-1]
    flat_RF = values.reshape(-1, features)
    wanted = max(1, min(MAX_ROWS, 4 * MAX_VALUES // features))
    return flat_RF[:: max(1, len(flat_RF) // wanted)].astype(np.float64)


@quiet
def data_taken(values: Array, *, grid: bool) -> dict[str, Any] | None:
    """Describe the input data of a layer as fields of `DataTaken`.

    Args:
        values: shape (batch, ..., features); with NaN or Inf, the result is None.
        grid: features are channels, whose correlations are not computed.
    """
    rows_RF = rows_of(values)
    if rows_RF is None or not np.isfinite(rows_RF).all():
        return None
    count, features = rows_RF.shape
    mean, std = float(rows_RF.mean()), float(rows_RF.std())
    zeros = float((rows_RF == 0).mean())
    found: dict[str, Any] = {
        "rows": count,
        "features": features,
        "mean": mean,
        "std": std,
        "smallest": float(rows_RF.min()),
        "largest": float(rows_RF.max()),
        "zeros": zeros,
        "nonzero_rms": ((mean**2 + std**2) / max(1 - zeros, 1e-9)) ** 0.5 if zeros < 1 else 0.0,
    }
    if features <= MAX_FEATURES:
        found |= {f"feature_{name}": each for name, each in _by_column(rows_RF).items()}
        if not grid and 2 <= features <= MAX_CORRELATED and count >= MIN_CORRELATED_ROWS:
            found |= _partners(rows_RF)
    return found


@quiet
def input_columns(values: Array) -> dict[str, Any]:
    """Describe the columns of a table as fields of `InputDistribution`; empty for other inputs.

    Args:
        values: shape (batch, ..., columns).
    """
    if not 2 <= values.ndim <= 3 or values.shape[-1] > MAX_FEATURES:
        return {}
    rows_RF = rows_of(values)
    if rows_RF is None or not np.isfinite(rows_RF).all():
        return {}
    columns = {f"column_{name}": each for name, each in _by_column(rows_RF).items()}
    return {"column_rows": len(rows_RF), **columns}


def _by_column(rows_RF: Array) -> dict[str, tuple[float, ...]]:
    """Return mean, standard deviation, and share of the rows with the median, for each column."""
    middle = (len(rows_RF) - 1) // 2  # a value of the column itself, not a mean of two
    ties_F = (rows_RF == np.sort(rows_RF, axis=0)[middle]).mean(axis=0)
    return {
        "means": tuple(rows_RF.mean(axis=0).tolist()),
        "stds": tuple(rows_RF.std(axis=0).tolist()),
        "ties": tuple(ties_F.tolist()),
    }


def _partners(rows_RF: Array) -> dict[str, Any]:
    """Return, for each feature, the most correlated earlier feature, and the correlation."""
    std_F = rows_RF.std(axis=0)
    scaled_RF = (rows_RF - rows_RF.mean(axis=0)) / np.where(std_F > 0, std_F, np.inf)
    between_FF = np.tril(np.abs(between(scaled_RF, scaled_RF)) / len(rows_RF), k=-1)
    return {
        "partners": tuple(between_FF.argmax(axis=1).tolist()),
        "correlations": tuple(between_FF.max(axis=1).tolist()),
    }


def gain(mean_square: float, fan_in: int) -> float:
    """Return the factor by which weights of this mean square scale inputs of mean 0."""
    return math.sqrt(max(mean_square, 0.0) * max(fan_in, 1))


@quiet
def sizes(values: Array) -> tuple[float, float]:
    """Return the mean square and variance of a sample; NaN if it is empty."""
    if not values.size:
        return math.nan, math.nan
    flat = values.reshape(-1)
    flat = flat[:: max(1, flat.size // MAX_VALUES)].astype(np.float64)
    return float(np.square(flat).mean()), float(flat.var())


@quiet
def spread(values: Array) -> tuple[float, float, float] | None:
    """Return how much an output differs between the rows of a batch.

    Returns:
        Standard deviation over rows (root mean square over units), root mean square of all values,
        and the largest difference between any row and the first; None with fewer than 2 rows, or if
        a value is not finite.
    """
    if values.ndim < 2 or len(values) < 2 or not values.size:
        return None
    rows_RF = values[:MAX_ROWS].reshape(min(len(values), MAX_ROWS), -1)
    rows_RF = rows_RF[:, :: max(1, rows_RF.size // MAX_VALUES)].astype(np.float64)
    if not np.isfinite(rows_RF).all():
        return None
    between = float(np.sqrt(rows_RF.var(axis=0).mean()))
    largest = float(np.abs(rows_RF - rows_RF[0]).max())
    return between, float(np.sqrt(np.square(rows_RF).mean())), largest


@quiet
def central_range(values: Array) -> float | None:
    """Return the width of the middle 90 % of values; None if some are not finite."""
    if not values.size or not np.isfinite(values).all():
        return None
    low, high = np.quantile(values, (0.05, 0.95))
    return float(high - low)


def rows_differ(values: Array) -> bool | None:
    """Return whether the rows of an array differ; None with fewer than 2 rows."""
    if values.ndim < 1 or len(values) < 2 or not values.size:
        return None
    return not bool((values[:MAX_ROWS] == values[:1]).all())


def inactive_units(values: Array) -> npt.NDArray[np.bool_] | None:
    """Return, by unit (last axis), whether a rectifier had no output above 0 in the batch."""
    if values.ndim < 2 or not values.size:
        return None
    asleep_RF = (values <= 0).reshape(-1, values.shape[-1])
    asleep_F: Array = np.logical_and.reduce(asleep_RF, axis=0)
    return asleep_F


@quiet
def saturated_units(values: Array, function: str) -> npt.NDArray[np.bool_] | None:
    """Return, by unit (last axis), whether all outputs of a sigmoid or tanh are at its ends."""
    if values.ndim < 2 or not values.size:
        return None
    rows_RF = values.reshape(-1, values.shape[-1]).astype(np.float64)
    slope_RF = rows_RF * (1 - rows_RF) if function == "sigmoid" else 1 - np.square(rows_RF)
    ends_F: Array = np.logical_and.reduce(slope_RF < LEAST_SLOPE, axis=0)
    return ends_F


@quiet
def unit_inputs(values: Array, function: str) -> tuple[int, tuple[int, ...]] | None:
    """Count the inputs of sigmoid or tanh units, reconstructed from their outputs.

    Args:
        values: outputs, shape (batch, ..., units).
        function: `sigmoid` or `tanh`.

    Returns:
        Number of sampled units, and for each the number of inputs in each interval between `EDGES`.
    """
    if values.ndim < 2 or not values.size:
        return None
    out_RF = values.reshape(-1, values.shape[-1]).astype(np.float64)
    units = max(1, out_RF.shape[1] // MAX_UNITS)
    out_RF = out_RF[:: max(1, len(out_RF) // 256), ::units][:256, :MAX_UNITS]
    given_RF = np.log(out_RF / (1 - out_RF)) if function == "sigmoid" else np.arctanh(out_RF)
    gaps = len(EDGES) + 1
    place_RF = np.searchsorted(EDGES, given_RF)
    known_RF = ~np.isnan(given_RF)
    counts: list[int] = []
    for place_R, known_R in zip(place_RF.T, known_RF.T, strict=True):
        counts += np.bincount(place_R[known_R], minlength=gaps).tolist()
    return (given_RF.shape[1], tuple(counts)) if any(counts) else None
