"""Shared checks of fitted scikit-learn estimators."""

from __future__ import annotations

import numpy as np

from mothtrap.core.facts.estimators import EstimatorFitted
from mothtrap.rules._loss_calls import entropy

UNCHANGED, MIN_PASSES = 0.98, 5
"""Share of the first loss above which the last loss counts as unchanged, and the minimum number of
passes; chosen by hand."""

NETWORKS = ("MLP", "SGD")
"""Prefixes of the names of estimators that are trained by gradient steps."""


def has_stood_still(one: EstimatorFitted) -> bool:
    """Return whether a network stopped early although its training loss hardly fell."""
    if not one.estimator.startswith(NETWORKS):
        return False  # other solvers stop early only if they have converged
    curve = one.loss_curve
    complete = len(curve) == one.iterations >= MIN_PASSES
    stopped = one.call == "fit" and complete and not one.exhausted
    return stopped and curve[-1] > UNCHANGED * curve[0] > 0


def has_only_begun(one: EstimatorFitted) -> bool:
    """Return whether a network used all of its passes, and its loss is no better than guessing."""
    if not (one.exhausted and one.loss_curve and one.estimator.startswith("MLP")):
        return False
    spread = one.label_std or 0.0
    guess = entropy(np.array(one.label_counts)) if one.label_counts else 0.5 * spread**2
    return one.loss_curve[-1] > guess > 0
