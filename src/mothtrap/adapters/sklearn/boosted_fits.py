"""Rounds of scikit-learn's boosted trees, which are read after their fit has ended."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from sklearn import base

from mothtrap.adapters.sklearn.fits import Fit
from mothtrap.core.adapters import Job, Losses
from mothtrap.core.facts.losses import LossSeries
from mothtrap.core.facts.trees import BoostingBegan, BoostingEnded, TreesGrown

PLAIN: Final = frozenset({"GradientBoostingClassifier", "GradientBoostingRegressor"})
HISTOGRAM: Final = frozenset({"HistGradientBoostingClassifier", "HistGradientBoostingRegressor"})
COUNTS: Final = ("poisson", "gamma")
MAX_ROUNDS: Final = 512
"""Maximum number of rounds that become steps; of longer fits, evenly spaced rounds do."""
OF_ROUNDS: Final = (BoostingBegan, BoostingEnded, TreesGrown, LossSeries)


def report(job: Job, fit: Fit, estimator: Any, rows: int) -> bool:
    """Report the rounds of a boosted model as steps; return False for other estimators.

    Args:
        job: receives the rounds.
        fit: record of the fit.
        estimator: fitted estimator.
        rows: number of training rows.
    """
    if not is_one_of(estimator, PLAIN | HISTOGRAM):
        return False
    trees = _trees(estimator)
    loss_S = np.asarray(getattr(estimator, "train_score_", ()), np.float64)
    if is_one_of(estimator, HISTOGRAM):
        loss_S = -loss_S[1:]  # negative scores, the first of them before any tree
    job.fact(_began(fit, estimator, step=job.now.step, has_losses=len(loss_S) > 0))
    every = max(1, -(-len(trees) // MAX_ROUNDS))
    for made in range(0, len(trees), every):
        job.fact(_grown(fit, trees[made], made, rows, job.now.step))
        job.stood_ready(OF_ROUNDS)
        known = made < len(loss_S) and bool(np.isfinite(loss_S[made]))
        value = float(loss_S[made]) if known else 0.0
        series = Losses(series=fit.label, value=value, location=fit.location or None)
        job.step([series] if known else [])
    job.fact(BoostingEnded(step=job.now.step, fit=fit.label, rounds=len(trees)))
    return True


def is_one_of(estimator: Any, names: frozenset[str]) -> bool:
    """Return whether an estimator has one of these classes; the classes may not be imported yet."""
    return any(each.__name__ in names for each in type(estimator).__mro__)


def _began(fit: Fit, estimator: Any, *, step: int, has_losses: bool) -> BoostingBegan:
    given = estimator.get_params(deep=False)
    classes = base.is_classifier(estimator)
    task = "counts" if given["loss"] in COUNTS else "regression"
    if classes:
        task = "two_classes" if len(estimator.classes_) == 2 else "classes"
    patience = given["n_iter_no_change"]
    if is_one_of(estimator, HISTOGRAM) and not estimator.do_early_stopping_:
        patience = None
    return BoostingBegan(
        step=step,
        fit=fit.label,
        call="fit",
        objective=str(given["loss"]),
        learning_rate=float(given["learning_rate"]),
        max_depth=int(given["max_depth"] or 0),
        max_leaves=int(given["max_leaf_nodes"] or 0),
        parameters={name: str(value) for name, value in given.items()},
        series=fit.label if has_losses else "",
        stops_after=int(patience) if patience else None,
        rounds_asked=int(given.get("n_estimators", given.get("max_iter", 0))),
        library="sklearn",
        task=task,
        location=fit.location or None,
    )


def _trees(estimator: Any) -> list[list[tuple[int, int, float]]]:
    """Return, for each round and each of its trees, its leaves, depth, and largest leaf."""
    if is_one_of(estimator, PLAIN):
        return [
            [_of_tree(one.tree_, estimator.learning_rate) for one in made]
            for made in estimator.estimators_
        ]
    return [[_of_nodes(one.nodes) for one in made] for made in estimator._predictors]


def _of_tree(tree: Any, rate: float) -> tuple[int, int, float]:
    leaf_N = np.asarray(tree.children_left) < 0
    largest = float(np.abs(tree.value[leaf_N]).max()) * rate
    return int(leaf_N.sum()), int(tree.max_depth), largest


def _of_nodes(nodes: Any) -> tuple[int, int, float]:
    leaves = nodes[nodes["is_leaf"].astype(bool)]
    return len(leaves), int(nodes["depth"].max()), float(np.abs(leaves["value"]).max())


def _grown(
    fit: Fit, trees: list[tuple[int, int, float]], made: int, rows: int, step: int
) -> TreesGrown:
    return TreesGrown(
        step=step,
        fit=fit.label,
        round=made,
        trees=len(trees),
        leaves=float(np.mean([leaves for leaves, _, _ in trees])),
        depth=max(depth for _, depth, _ in trees),
        largest_leaf=max(largest for _, _, largest in trees),
        rows=rows,
    )
