"""Fits of estimators, as rules see them."""

from __future__ import annotations

from mothtrap.core.facts.estimators import EstimatorFitted

STILL, CURVE = 0.98, 5
"""Share of the first loss that remains if nothing was learned, and passes; chosen by hand."""

NETWORKS = ("MLP", "SGD")
"""Beginning of the names of estimators that are trained by gradient steps."""


def has_stood_still(one: EstimatorFitted) -> bool:
    """Return whether a network stopped although its training loss hardly fell."""
    if not one.estimator.startswith(NETWORKS):
        return False  # a solver that stops early has converged, whatever its penalty leaves
    curve = one.loss_curve
    whole = len(curve) == one.iterations >= CURVE
    return one.call == "fit" and whole and not one.exhausted and curve[-1] > STILL * curve[0] > 0
