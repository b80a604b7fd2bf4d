"""Nearest rows, smooth classes, and the share of outputs that a linear model explains.

Shape suffixes: R = rows, F = features.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]


def nearest(input_RF: Floats, some: npt.NDArray[Any], count: int) -> npt.NDArray[np.int64]:
    """Return the indices (rows of `some`, count) of the nearest rows, all features scaled alike."""
    from sklearn.neighbors import NearestNeighbors
    from sklearn.preprocessing import StandardScaler

    scaled_RF = StandardScaler().fit_transform(input_RF)
    near = NearestNeighbors(n_neighbors=count).fit(scaled_RF).kneighbors(scaled_RF[some])[1]
    return np.asarray(near, np.int64)


def distances(known_RF: Floats, asked: Sequence[Floats], neighbors: int = 10) -> list[Floats]:
    """Return the distance of rows to their tenth nearest known row; all features are scaled alike.

    Args:
        known_RF: Rows among which neighbors are searched.
        asked: Matrices of other rows.
        neighbors: Number of the neighbor whose distance counts.
    """
    from sklearn.neighbors import NearestNeighbors
    from sklearn.preprocessing import StandardScaler

    scaler = StandardScaler().fit(known_RF)
    model = NearestNeighbors(n_neighbors=neighbors).fit(scaler.transform(known_RF))
    return [np.asarray(model.kneighbors(scaler.transform(each))[0][:, -1]) for each in asked]


def smooth_classes(
    input_RF: Floats, class_R: npt.NDArray[Any], neighbors: int, asked: Sequence[Floats]
) -> list[npt.NDArray[Any]]:
    """Return the classes that nearest neighbors predict for the rows of each matrix."""
    from sklearn.neighbors import KNeighborsClassifier
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    model = make_pipeline(StandardScaler(), KNeighborsClassifier(neighbors)).fit(input_RF, class_R)
    return [np.asarray(model.predict(each)) for each in asked]


def linear_share(input_RF: Floats, output_R: Floats) -> float:
    """Return the share (R2) of outputs that a linear model of the inputs explains."""
    from sklearn.linear_model import Ridge
    from sklearn.preprocessing import StandardScaler

    scaled_RF = StandardScaler().fit_transform(input_RF)
    return float(Ridge(1e-3).fit(scaled_RF, output_R).score(scaled_RF, output_R))
