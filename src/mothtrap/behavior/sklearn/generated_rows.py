"""Rows of a table that are made from other rows of their class.

Shape suffixes: R = rows, F = features.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


def interpolated(rows: Array, target_R: Array, rng: np.random.Generator) -> Array:
    """Return points between each row and a near row of its class (SMOTE, Chawla et al., 2002)."""
    from sklearn.neighbors import NearestNeighbors

    found = rows.astype(np.float64)
    scale_F = found.std(axis=0) + 1e-12
    for target in np.unique(target_R):
        at = np.flatnonzero(target_R == target)
        if len(at) < 3:
            continue
        own = found[at] / scale_F
        near = NearestNeighbors(n_neighbors=min(6, len(at))).fit(own)
        places = near.kneighbors(own, return_distance=False)[:, 1:]
        other = at[places[np.arange(len(at)), rng.integers(0, places.shape[1], len(at))]]
        share = rng.uniform(0, 1, (len(at), 1))
        found[at] = rows[at] + share * (rows[other] - rows[at])
    return found


def autoencoded(rows: Array, target_R: Array, rng: np.random.Generator) -> Array:
    """Return rows that a small autoencoder makes of noisy codes, one autoencoder per class."""
    from sklearn.decomposition import PCA

    found = rows.astype(np.float64)
    for target in np.unique(target_R):
        at = np.flatnonzero(target_R == target)
        width = min(8, rows.shape[1], len(at) - 1)
        if width < 1:
            continue
        coder = PCA(width).fit(found[at])  # the best linear autoencoder of this width
        code = coder.transform(found[at])
        code += 0.3 * code.std(axis=0) * rng.normal(size=code.shape)
        rest = found[at] - coder.inverse_transform(coder.transform(found[at]))
        found[at] = coder.inverse_transform(code) + rest[rng.permutation(len(at))]
    return found
