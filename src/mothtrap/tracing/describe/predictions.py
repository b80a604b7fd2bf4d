"""Predictions of a fitted model compared with labels.

Shape suffixes: R = rows, K = classes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from mothtrap.core.facts.estimators import PredictionsCompared
from mothtrap.statistics.products import correlation

Floats = npt.NDArray[np.float64]
MAX_CLASSES: Final = 100
RARE: Final = 3.1
"""Number of standard errors that unrelated predictions exceed once in 1,000 times."""
MIN_ROWS: Final = 10


def compared(
    label_R: npt.NDArray[Any],
    predicted_R: npt.NDArray[Any],
    classes: Sequence[Any] | None,
    **about: Any,
) -> PredictionsCompared | None:
    """Compare predictions with labels; return None if their shapes or types do not fit.

    Args:
        label_R: labels.
        predicted_R: predictions for the same rows.
        classes: the classes of the model; None for a regression.
        about: other fields of the fact.
    """
    if label_R.shape != predicted_R.shape or label_R.ndim != 1 or len(label_R) < MIN_ROWS:
        return None
    found = _of_numbers(label_R, predicted_R) if classes is None else None
    if classes is not None:
        found = _of_classes(label_R, predicted_R, classes)
    return None if found is None else PredictionsCompared(rows=len(label_R), **found, **about)


def _of_classes(
    label_R: npt.NDArray[Any], predicted_R: npt.NDArray[Any], classes: Sequence[Any]
) -> dict[str, Any] | None:
    number = {each: n for n, each in enumerate(classes)}
    for each in (*label_R.tolist(), *predicted_R.tolist()):
        number.setdefault(each, len(number))
        if len(number) > MAX_CLASSES:
            return None
    given_R, chosen_R = (
        np.array([number[each] for each in values.tolist()]) for values in (label_R, predicted_R)
    )
    table_KK = np.zeros((len(number), len(number)))
    np.add.at(table_KK, (given_R, chosen_R), 1)
    label_K, predicted_K, right_K = (
        table_KK.sum(axis=1),
        table_KK.sum(axis=0),
        np.diagonal(table_KK),
    )
    by_chance, spread = _agreement(label_K, predicted_K)
    kappa = (float(right_K.sum()) / len(label_R) - by_chance) / (1 - by_chance) if spread else None
    return {
        "relation": kappa,
        "chance": RARE * spread / (1 - by_chance) if spread else 0.0,
        "label_counts": tuple(label_K.astype(int).tolist()),
        "predicted_counts": tuple(predicted_K.astype(int).tolist()),
        "right": tuple(right_K.astype(int).tolist()),
    }


def _agreement(label_K: Floats, predicted_K: Floats) -> tuple[float, float]:
    """Return the mean and the standard deviation of the accuracy of shuffled predictions."""
    rows, both_K = float(label_K.sum()), label_K * predicted_K
    apart = both_K @ ((rows - label_K) * (rows - predicted_K)) + both_K.sum() ** 2 - both_K @ both_K
    variance = float(apart) / (rows**2 * (rows - 1))
    return float(both_K.sum()) / rows**2, float(np.sqrt(variance)) / rows


def _of_numbers(label_R: npt.NDArray[Any], predicted_R: npt.NDArray[Any]) -> dict[str, Any] | None:
    if label_R.dtype.kind not in "fiub" or predicted_R.dtype.kind not in "fiub":
        return None
    label_R, predicted_R = label_R.astype(np.float64), predicted_R.astype(np.float64)
    if not (np.isfinite(label_R).all() and np.isfinite(predicted_R).all()):
        return None
    varies = np.ptp(label_R) > 0 and np.ptp(predicted_R) > 0
    return {
        "relation": correlation(label_R, predicted_R) if varies else None,
        "chance": RARE / float(np.sqrt(len(label_R))),
        "label_std": float(label_R.std()),
        "predicted_std": float(predicted_R.std()),
    }
