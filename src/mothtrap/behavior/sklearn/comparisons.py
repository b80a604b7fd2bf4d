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
    """Return indices (rows of `some`, count) of the nearest rows, with equally scaled features."""
    from sklearn.neighbors import NearestNeighbors
    from sklearn.preprocessing import StandardScaler

    scaled_RF = StandardScaler().fit_transform(input_RF)
    near = NearestNeighbors(n_neighbors=count).fit(scaled_RF).kneighbors(scaled_RF[some])[1]
    return np.asarray(near, np.int64)


def distances(known_RF: Floats, asked: Sequence[Floats], neighbors: int = 10) -> list[Floats]:
    """Return the distance of rows to their tenth nearest known row, with equally scaled features.

    Args:
        known_RF: Rows among which neighbors are searched.
        asked: Matrices of rows whose distance is computed.
        neighbors: Rank of the neighbor whose distance is returned.
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
    """Return the share (R2) of the outputs that a linear model of the inputs explains."""
    from sklearn.linear_model import Ridge
    from sklearn.preprocessing import StandardScaler

    scaled_RF = StandardScaler().fit_transform(input_RF)
    return float(Ridge(1e-3).fit(scaled_RF, output_R).score(scaled_RF, output_R))


def kept_by_neighbors(
    known: npt.NDArray[Any],
    known_target_R: npt.NDArray[Any],
    rows: npt.NDArray[Any],
    changed: npt.NDArray[Any],
    target_R: npt.NDArray[Any],
    neighbors: int = 5,
) -> float | None:
    """Return the share of the neighbors' correct predictions that stay correct for changed rows.

    Args:
        known: Rows with targets, in which neighbors are searched; images are flattened.
        known_target_R: Targets of the known rows.
        rows: Rows to classify.
        changed: The same rows after a change.
        target_R: Targets of the rows to classify.
        neighbors: Number of neighbors that vote.

    Returns:
        The share; None if no prediction is correct before the change.
    """
    from sklearn.neighbors import KNeighborsClassifier
    from sklearn.preprocessing import StandardScaler

    def flat(given: npt.NDArray[Any]) -> Floats:
        return np.nan_to_num(np.asarray(given, np.float64).reshape(len(given), -1))

    scaler = StandardScaler(with_std=known.ndim == 2).fit(flat(known))
    model = KNeighborsClassifier(neighbors).fit(scaler.transform(flat(known)), known_target_R)
    right_R = model.predict(scaler.transform(flat(rows))) == target_R
    if not right_R.any():
        return None
    again_R = model.predict(scaler.transform(flat(changed))) == target_R
    return float(again_R[right_R].mean())


def neighbor_classes(
    known_RF: Floats, class_R: npt.NDArray[Any], asked_RF: Floats, neighbors: int
) -> npt.NDArray[Any]:
    """Return the classes that nearest neighbors vote for, without scaling the features."""
    from sklearn.neighbors import KNeighborsClassifier

    model = KNeighborsClassifier(neighbors).fit(known_RF, class_R)
    return np.asarray(model.predict(asked_RF))
