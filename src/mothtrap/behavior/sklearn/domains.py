"""A model that distinguishes two groups of rows.

Shape suffixes: R = rows, F = features.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from mothtrap.behavior.sklearn.encoding import Encoder
from mothtrap.behavior.sklearn.threads import one_thread
from mothtrap.behavior.table import Table

MAX_ROWS = 4_000
"""Most rows of each group; chosen by hand: the fit takes a second."""
Z_LOW = 3.29
"""Number of standard errors from the AUC down to its lower bound: one-sided 99.95 %."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DomainScore:
    """AUC of distinguishing two groups of rows, its lower bound, and the features that matter."""

    auc: float
    low: float
    p: float
    names: tuple[str, ...]


def domain_score(first: Table, second: Table, rng: np.random.Generator) -> DomainScore:
    """Fit a boosted model to one half of both groups, and score it on the other half."""
    from sklearn.ensemble import HistGradientBoostingClassifier

    encoder = Encoder(first)
    parts = [
        encoder.ordinal(each.take(rng.permutation(len(each))[:MAX_ROWS]))
        for each in (first, second)
    ]
    input_RF = np.concatenate(parts)
    group_R = np.repeat([0, 1], [len(each) for each in parts])
    fit_R = rng.random(len(group_R)) < 0.5
    categories_F = encoder.categories_F
    model = HistGradientBoostingClassifier(
        max_iter=60,
        early_stopping=False,
        class_weight="balanced",
        categorical_features=categories_F if categories_F.any() else None,
        random_state=0,
    )
    with warnings.catch_warnings(), one_thread():
        warnings.simplefilter("ignore")
        model.fit(input_RF[fit_R], group_R[fit_R])
        judged_RF, truth_R = input_RF[~fit_R], group_R[~fit_R] == 1
        auc = area_under(model.predict_proba(judged_RF)[:, 1], truth_R)
        losses = []
        for place in range(input_RF.shape[1]):
            mixed_RF = judged_RF.copy()
            mixed_RF[:, place] = rng.permutation(mixed_RF[:, place])
            losses.append(auc - area_under(model.predict_proba(mixed_RF)[:, 1], truth_R))
    error = area_error(auc, int(truth_R.sum()), int((~truth_R).sum()))
    order = np.argsort(losses)[::-1]
    named = tuple(encoder.names[i] for i in order if losses[i] > 0.2 * (auc - 0.5))
    p = math.erfc((auc - 0.5) / error / math.sqrt(2)) / 2
    return DomainScore(auc=auc, low=auc - Z_LOW * error, p=p, names=named[:4])


def area_under(score_R: npt.NDArray[np.float64], truth_R: npt.NDArray[np.bool_]) -> float:
    """Return the area under the ROC curve."""
    from scipy.stats import rankdata

    ones, zeros = int(truth_R.sum()), int((~truth_R).sum())
    if not ones or not zeros:
        return 0.5
    ranks = float(rankdata(score_R)[truth_R].sum())
    return (ranks - ones * (ones + 1) / 2) / (ones * zeros)


def area_error(auc: float, ones: int, zeros: int) -> float:
    """Return the standard error of an AUC (Hanley and McNeil, 1982)."""
    first, second = auc / (2 - auc), 2 * auc * auc / (1 + auc)
    variance = auc * (1 - auc) + (ones - 1) * (first - auc**2) + (zeros - 1) * (second - auc**2)
    return math.sqrt(max(variance, 1e-12) / max(ones * zeros, 1))
