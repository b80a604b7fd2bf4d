"""Observations of the inputs of first layers, shared by the rules on data."""

from __future__ import annotations

import numpy as np

from mothtrap.core.facts.layers import DataTaken
from mothtrap.core.window import Floats, Window

MOSTLY_ONE_VALUE = 0.9
"""If one value has this share, the scale of a feature depends only on the frequency of the other
values."""


def by_layer(window: Window) -> dict[str, list[DataTaken]]:
    """Return the observed data by the layer that received them, in order."""
    found: dict[str, list[DataTaken]] = {}
    for look in window.seen(DataTaken):
        found.setdefault(look.layer, []).append(look)
    return found


def tables_by_layer(window: Window) -> dict[str, list[DataTaken]]:
    """Return the observed data by layer, without features that the model itself computes."""
    return {
        layer: looks
        for layer, looks in by_layer(window).items()
        if not any(look.computed for look in looks)
    }


def feature_rms(look: DataTaken) -> Floats:
    """Return the root mean square of each feature; empty if there are too many features."""
    rms: Floats = np.sqrt(np.square(look.feature_means) + np.square(look.feature_stds))
    return rms


def pooled_features(looks: list[DataTaken]) -> tuple[Floats, Floats]:
    """Pool the scale of each feature over several observations.

    Batches with numbers that are not finite, or whose squares overflow, are left out.

    Returns:
        The standard deviation of each feature, and the share of rows with its median value. Both
        have shape (features,), and are empty if features were not recorded one by one.
    """
    told = [look for look in looks if look.feature_stds and _is_finite(look)]
    told = [look for look in told if len(look.feature_stds) == len(told[0].feature_stds)]
    if not told:
        return np.empty(0), np.empty(0)
    rows_L1 = np.array([[look.rows] for look in told], dtype=np.float64)
    mean_LF = np.array([look.feature_means for look in told])
    square_LF = np.square([look.feature_stds for look in told]) + np.square(mean_LF)
    total = rows_L1.sum()
    mean_F = (rows_L1 * mean_LF).sum(axis=0) / total
    variance_F = (rows_L1 * square_LF).sum(axis=0) / total - np.square(mean_F)
    ties_F: Floats = (rows_L1 * np.array([look.feature_ties for look in told])).sum(axis=0)
    return np.sqrt(np.maximum(variance_F, 0.0)), ties_F / total


def _is_finite(look: DataTaken) -> bool:
    return bool(np.isfinite([look.feature_means, look.feature_stds]).all())
