"""TRE915: only the training data are evaluated."""

from __future__ import annotations

from mothtrap.core.errors import NotApplicable
from mothtrap.core.facts.data import RowsShared
from mothtrap.core.facts.trees import BoostingBegan
from mothtrap.core.findings import Finding, Severity
from mothtrap.core.frozen import frozen
from mothtrap.core.needs import Need
from mothtrap.core.rule import Rule
from mothtrap.core.thresholds import threshold
from mothtrap.core.window import Window
from mothtrap.rules._trees import OF_BOOSTED, Boosted, judge_each

HELD_OUT = ("val", "eval", "test", "hold", "dev")
"""Parts of names of held-out data."""


@frozen
class EvaluatedOnTraining(Rule):
    """Only the training data are evaluated.

    What it detects:
        A training run whose evaluation sets all consist of training rows.

    Why it matters:
        Trees can memorize any table. A score on training rows says nothing about new rows, and
        early stopping on it never stops.

    Fires:
        Warning when only the training data are evaluated, under a name that claims otherwise
        (`valid`, `validation_0`, `eval`, `test`, `holdout`, `dev`). The evaluated table is the
        training table, or shares at least `share` of its rows with it and has about as many. A
        note with any other name.

    Stays quiet:
        If other rows are evaluated, too, or if nothing is evaluated.

    What to do:
        - Hold out rows with `train_test_split(x, y, test_size=0.2)`, and evaluate on them.

    Example:
        XGBClassifier().fit(x, y, eval_set=[(x, y)])
        XGBClassifier().fit(x, y, eval_set=[(x_valid, y_valid)])

    References:
        Hastie, Tibshirani, Friedman 2009, The elements of statistical learning, section 7.2
    """

    code = "TRE915"
    title = "evaluation on training data"
    needs = (Need(facts=(BoostingBegan,)), Need(facts=(RowsShared,), optional=True), OF_BOOSTED)
    explains = (
        "too_good_to_be_true",
        "single_feature_dominates",
        "leaf_explosion",
        "train_eval_overlap",
    )

    share: float = threshold(
        0.95, unit="of the rows", source="chosen by hand: nearly the whole training table"
    )

    def check(self, window: Window) -> list[Finding]:
        """Check every training run of trees."""
        return judge_each(window, self._judge)

    def _judge(self, window: Window, one: Boosted) -> Finding | None:
        began = one.began
        if not began.sites:
            raise NotApplicable("no evals were passed")
        if not began.train_site or not self._copies(window).issuperset(one.held_out):
            return None
        sites = ", ".join(began.sites)
        claims = any(part in sites.lower() for part in HELD_OUT)
        return self.finding(
            window,
            severity=Severity.WARNING if claims else Severity.INFO,
            step=began.step,
            message=f"the only evaluated data, {sites}, are the training data",
            evidence={"site": sites, "fit": began.fit},
            location=began.location,
        )

    def _copies(self, window: Window) -> set[str]:
        """Return the evaluation sets that consist of training rows."""
        return {
            one.source
            for one in window.seen(RowsShared)
            if one.shared >= self.share * max(one.eval_rows, one.train_rows)
        }
