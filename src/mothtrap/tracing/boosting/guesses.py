"""The loss of the best constant prediction, by metric."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from mothtrap.core import metrics

Floats = npt.NDArray[np.float64]


def guess(metric: str, label_R: Floats | None) -> float | None:
    """Return the lowest loss of a constant prediction; None if unknown.

    Args:
        metric: the library's name of the metric.
        label_R: labels; labels that are not finite are skipped.
    """
    if label_R is None or not len(label_R):
        return None
    label_R = label_R[np.isfinite(label_R)]
    kind = metrics.kind(metric)
    if not len(label_R) or np.ptp(label_R) == 0:
        return None
    if kind == "rmse":
        return float(label_R.std())
    if kind == "mse":
        return float(label_R.var())
    if kind == "mae":
        return float(np.abs(label_R - np.median(label_R)).mean())
    if kind in ("logloss", "mlogloss", "error", "merror"):
        if (label_R != np.round(label_R)).any():
            return None
        _, count = np.unique(label_R, return_counts=True)
        share = count / count.sum()
        if kind in ("error", "merror"):
            return float(1 - share.max())
        return float(-(share * np.log(share)).sum())
    return None
