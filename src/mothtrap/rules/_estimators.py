"""Shared checks of fitted scikit-learn estimators."""

from __future__ import annotations

from mothtrap.core.facts.estimators import EstimatorFitted

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
