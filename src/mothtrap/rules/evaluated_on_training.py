"""TRE915: only the training data are evaluated."""

from __future__ import annotations

from mothtrap.core.errors import NotApplicable
from mothtrap.core.facts.data import RowsShared
from mothtrap.core.facts.trees import BoostingBegan
from mothtrap.core.found import Found
from mothtrap.core.needs import Need
from mothtrap.core.own_rules import rule
from mothtrap.core.thresholds import threshold
from mothtrap.core.window import Window
from mothtrap.rules._trees import OF_BOOSTED, Boosted, judge_each, number_of

HELD_OUT = ("val", "eval", "test", "hold", "dev")
"""Parts of names of held-out data."""


@rule(
    "TRE915",
    title="evaluation on training data",
    needs=[Need(facts=(BoostingBegan,)), Need(facts=(RowsShared,), optional=True), OF_BOOSTED],
    explains=(
        "too_good_to_be_true",
        "single_feature_dominates",
        "leaf_explosion",
        "train_eval_overlap",
    ),
)
def evaluated_on_training(
    window: Window,
    *,
    share: float = threshold(
        0.95, unit="of the rows", source="chosen by hand: nearly the whole training table"
    ),
) -> list[Found]:
    """Only the training data are evaluated.

    What it detects:
        A training run whose evaluation sets all consist of training rows.

    Why it matters:
        Trees can memorize any table. A score on training rows says nothing about new rows, and
        early stopping on it never stops.

    Fires:
        Warning when only the training data are evaluated, under a name that claims otherwise
        (`valid`, `validation_0`, `eval`, `test`, `holdout`, `dev`). The evaluated table is the
        training table, or shares at least `share` of its rows with it and has about as many. Also
        when early stopping is set, which needs other rows. Otherwise a note.

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
    copies = {
        one.source
        for one in window.seen(RowsShared)
        if one.shared >= share * max(one.eval_rows, one.train_rows)
    }

    def judge(one: Boosted) -> Found | None:
        began = one.began
        if not began.sites:
            raise NotApplicable("no evals were passed")
        if not began.train_site or not copies.issuperset(one.held_out):
            return None
        sites = ", ".join(began.sites)
        claims = any(part in sites.lower() for part in HELD_OUT)
        # CatBoost ignores `od_wait` without an `eval_set`.
        patience = began.stops_after or int(number_of(began, "od_wait"))
        stops = f", so early stopping after {patience} rounds has no effect" if patience else ""
        return Found.of(
            began,
            f"the only evaluated data, {sites}, are the training data{stops}",
            severity="warning" if claims or patience else "info",
            evidence={"site": sites, "fit": began.fit},
        )

    return judge_each(window, judge)
