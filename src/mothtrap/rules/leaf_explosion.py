"""TRE903: trees are so deep that their leaves have only a few rows."""

from __future__ import annotations

import numpy as np

from mothtrap.core.errors import NotEnoughData
from mothtrap.core.facts.evaluations import Evaluation
from mothtrap.core.facts.trees import BoostingBegan, TreesGrown
from mothtrap.core.findings import Finding, Severity
from mothtrap.core.frozen import frozen
from mothtrap.core.needs import Need
from mothtrap.core.rule import Rule
from mothtrap.core.thresholds import threshold
from mothtrap.core.window import Window
from mothtrap.rules._trees import OF_BOOSTED, Boosted, judge_each, present, with_evaluation

DEFAULT_DEPTH = 6
"""Default `max_depth` of XGBoost."""
BARE = 5.0
"""With fewer rows per leaf, trees run out of rows before they reach a limit; chosen by hand."""


@frozen
class LeafExplosion(Rule):
    """Trees are so deep that their leaves have only a few rows.

    What it detects:
        Trees with a size limit above the default, or without a limit, that grow until each leaf
        has only a few rows, while the evaluation loss gets worse.

    Why it matters:
        A leaf of three rows fits their noise. The training loss falls to almost 0, and new rows
        are predicted worse than by smaller trees.

    Fires:
        Warning when leaves have less than `rows` training rows on average, `share` of the trees
        reach the allowed depth (or number of leaves), this limit is above the default, and the
        evaluation loss is `rise` above its best while the training loss fell.

    Stays quiet:
        In the first `trees` rounds. For trees of any depth while the evaluation loss does not
        get worse. With default limits. If only training data are evaluated.

    What to do:
        - XGBoost: Make trees smaller: `max_depth=4`, or `max_leaves=31` with
          `grow_policy="lossguide"`.
        - LightGBM: Make trees smaller: `num_leaves=31`, or `max_depth=5`.
        - CatBoost: Make trees smaller: `depth=4`.
        - scikit-learn: Make trees smaller: `max_leaf_nodes=31`, or `max_depth=5`.
        - XGBoost: Require more rows per leaf, `min_child_weight=10`, or a minimum gain per split,
          `gamma=1`.
        - LightGBM: Require more rows per leaf, `min_data_in_leaf=50`, or a minimum gain per
          split, `min_gain_to_split=1`.
        - CatBoost: Regularize the leaves: `l2_leaf_reg=10`; with `grow_policy="Lossguide"`
          also `min_data_in_leaf=50`.
        - scikit-learn: Require more rows per leaf: `min_samples_leaf=50`.
        - XGBoost, CatBoost: Use early stopping: `early_stopping_rounds=50`.
        - LightGBM: Use early stopping: `callbacks=[lightgbm.early_stopping(50)]`.
        - scikit-learn: Use early stopping: `n_iter_no_change=20` (`early_stopping=True` of the
          histogram estimators).

    Example:
        xgboost.train({"max_depth": 14}, train, 300, evals=evals)
        xgboost.train({"max_depth": 4, "min_child_weight": 10}, train, 300, evals=evals)

    References:
        Hastie, Tibshirani, Friedman 2009, The elements of statistical learning, section 10.11
    """

    code = "TRE903"
    needs = (Need(facts=(BoostingBegan, TreesGrown, Evaluation)), OF_BOOSTED)
    explains = ("overfit", "overtraining", "stopped_too_late")
    passes = True

    rows: float = threshold(20.0, unit="rows per leaf on average", source="chosen by hand")
    share: float = threshold(
        0.9, unit="of the trees", source="chosen by hand: some trees stay below the limit"
    )
    rise: float = threshold(0.05, unit="of the best evaluation loss", source="chosen by hand")
    trees: int = threshold(10, unit="rounds with recorded trees", source="chosen by hand")

    def check(self, window: Window) -> list[Finding]:
        """Check every training run with an evaluation set."""
        return judge_each(window, self._judge)

    def _judge(self, window: Window, one: Boosted) -> Finding | None:
        judged = with_evaluation(one)
        grown = [tree for tree in one.trees if tree.rows and tree.leaves]
        if len(grown) < self.trees:
            raise NotEnoughData(f"needs the trees of {self.trees} rounds, saw {len(grown)}")
        early = grown[: self.trees]
        per_leaf = float(np.median([tree.rows / tree.leaves for tree in early]))
        best, last = judged.last.best, present(judged.value_E)
        risen = last - best > self.rise * abs(best)
        if per_leaf >= self.rows or not risen or not self._at_limit(one, early, per_leaf):
            return None
        loss = one.loss
        if loss is not None and len(loss) > 1 and not loss.values_S[-1] < loss.values_S[0]:
            return None
        depth = max(tree.depth for tree in early)
        return self.finding(
            window,
            severity=Severity.WARNING,
            step=one.began.step,
            last_step=judged.last.step,
            count=len(grown),
            message=(
                f"trees have {np.median([t.leaves for t in early]):.0f} leaves at depth {depth} "
                f"with {per_leaf:.1f} rows each (limit {self.rows:g}); {judged.last.operation} of "
                f"{judged.last.site} rose from {best:.4g} to {last:.4g}"
            ),
            evidence={
                "value": per_leaf,
                "limit": self.rows,
                "depth": depth,
                "max_depth": one.began.max_depth,
                "best": best,
                "last": last,
                "fit": one.began.fit,
            },
            location=one.began.location,
        )

    def _at_limit(self, one: Boosted, grown: list[TreesGrown], per_leaf: float) -> bool:
        deep, leafy = one.began.max_depth, one.began.max_leaves
        bare = per_leaf < BARE
        if leafy:
            allowed = leafy > 2**DEFAULT_DEPTH
            full = _share(t.leaves >= 0.9 * leafy for t in grown) >= self.share
            return allowed and (full or bare)
        if deep:
            full = _share(t.depth >= deep for t in grown) >= self.share
            return deep > DEFAULT_DEPTH and (full or bare)
        return True


def _share(flags: object) -> float:
    return float(np.mean([*flags]))  # type: ignore[misc]
