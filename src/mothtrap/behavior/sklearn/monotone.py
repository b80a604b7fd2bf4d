"""The nearest values that only rise, or only fall."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]


def monotone(value_B: Floats, weight_B: Floats, *, rising: bool) -> Floats:
    """Return the monotone values (B,) with the smallest weighted squared change."""
    from sklearn.isotonic import IsotonicRegression

    places = np.arange(len(value_B))
    model = IsotonicRegression(increasing=rising)
    return np.asarray(model.fit_transform(places, value_B, sample_weight=weight_B), np.float64)
