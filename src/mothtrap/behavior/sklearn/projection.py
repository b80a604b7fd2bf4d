"""Projections of many features onto a plane.

Shape suffixes: R = rows, F = features.
"""

from __future__ import annotations

import warnings
from typing import Literal

import numpy as np
import numpy.typing as npt

from mothtrap.behavior.sklearn.threads import one_thread
from mothtrap.core.errors import ConfigError, NotEnoughData

Floats = npt.NDArray[np.float64]
Projection = Literal["pca", "tsne"]

TSNE_ROWS = 5_000
"""Rows of a t-SNE at most; chosen by hand: 5,000 rows take a minute."""
PCA_FIRST = 50
"""Features that are left before a t-SNE, as van der Maaten and Hinton (2008) advise."""
PERPLEXITY = 30.0
"""The usual value; with few rows, a fifth of the number of rows."""


def project(value_RF: Floats, method: Projection, start_R2: Floats | None = None) -> Floats:
    """Project rows onto a plane, shape (R, 2).

    Args:
        value_RF: Features.
        method: "pca", or "tsne" (at most `TSNE_ROWS` rows).
        start_R2: Initial positions of a t-SNE; by default the principal components.

    Raises:
        ConfigError: the method does not exist.
        NotEnoughData: there are fewer than 10 rows, or no feature varies.
    """
    if method not in ("pca", "tsne"):
        raise ConfigError(f"method: expected pca or tsne, found {method!r}")
    if len(value_RF) < 10 or not np.ptp(value_RF, axis=0).any():
        raise NotEnoughData("a projection needs 10 rows with features that vary")
    plane_R2 = principal(value_RF, 2)
    if method == "pca":
        return plane_R2
    from sklearn.manifold import TSNE

    few_RF = principal(value_RF, PCA_FIRST) if value_RF.shape[1] > PCA_FIRST else value_RF
    start_R2 = plane_R2 if start_R2 is None else start_R2
    start_R2 = 1e-4 * start_R2 / max(float(start_R2[:, 0].std()), 1e-12)
    model = TSNE(
        perplexity=min(PERPLEXITY, len(value_RF) / 5), init=start_R2, random_state=0, n_jobs=1
    )
    with warnings.catch_warnings(), one_thread():
        warnings.simplefilter("ignore")
        return np.asarray(model.fit_transform(few_RF), np.float64)


def principal(value_RF: Floats, count: int) -> Floats:
    """Return the first principal components of rows, (R, count); missing components are 0."""
    from sklearn.decomposition import PCA

    count = min(count, *value_RF.shape) if count > 2 else 2
    most = min(count, *value_RF.shape)
    with one_thread():
        found = PCA(most, svd_solver="full").fit_transform(value_RF)
    return np.pad(found, ((0, 0), (0, count - most)))
