"""TRE901: one feature leaks the target."""

from __future__ import annotations

import math

from mothtrap.core.errors import NotApplicable, NotEnoughData
from mothtrap.core.facts.trees import BoostingBegan, ColumnsSeen, FeatureGains
from mothtrap.core.findings import Severity
from mothtrap.core.found import Found
from mothtrap.core.metrics import ERROR_RATES, kind, names_of
from mothtrap.core.needs import Need
from mothtrap.core.own_rules import rule
from mothtrap.core.steps import Mode
from mothtrap.core.thresholds import threshold
from mothtrap.core.window import Series, Window
from mothtrap.rules._trees import OF_BOOSTED, Boosted, judge_each

LEAST = 0.95
"""Share of the labels that a leaking column explains alone; chosen by hand."""
FEW = 300
"""Training rows below which one column may determine all labels by chance; by hand."""
MOST = 0.97
"""Share of the labels and of the gain that one feature cannot have by chance; by hand."""
EASY = 0.9
"""If a second column alone explains this share of the labels, the classes are easy to separate; by
hand."""


@rule(
    "TRE901",
    needs=[
        Need(facts=(BoostingBegan, FeatureGains)),
        Need(
            scalars=names_of(
                *("auc", "error", "merror", "accuracy", "logloss", "rmse", "mse"),
            ),
            optional=True,
        ),
        OF_BOOSTED,
    ],
    explains=("too_good_to_be_true", "labels_unrelated", "nothing_learned", "overtraining"),
    passes=True,
)
def single_feature_dominates(
    window: Window,
    *,
    share: float = threshold(0.8, unit="of the gain of all splits", source="chosen by hand"),
    columns: int = threshold(4, unit="columns", source="chosen by hand"),
    rounds: int = threshold(5, unit="rounds", source="chosen by hand: the first rounds vary"),
    auc: float = threshold(0.99, unit="area under the curve", source="chosen by hand"),
    explained: float = threshold(0.98, unit="of the variance", source="chosen by hand"),
    alone: float = threshold(0.98, unit="of the labels", source="chosen by hand"),
    used: float = threshold(0.3, unit="of the gain of all splits", source="chosen by hand"),
    logloss: float = threshold(
        1.1, unit="times the logloss of perfect trees", source="chosen by hand"
    ),
) -> list[Found]:
    """One feature leaks the target.

    What it detects:
        A feature with nearly all of the gain of a boosted model, whose evaluation is nearly perfect
        from the first rounds on.

    Why it matters:
        The column was computed from the target, or is known only after it (a date of payment, an
        identifier sorted by class). The score collapses when the column is not known.

    Fires:
        Error when a feature has more than `share` of the gain of all splits and an evaluation is
        nearly perfect: an area under the curve of `auc` or an error rate of 1 - `auc` in the first
        round; an explained variance after ten rounds that is within `explained` of the maximum at
        this learning rate; or a logloss of `logloss` times its minimum at this learning rate.
        Warning in these cases with fewer than 300 rows. Warning when the feature contains the
        label, or when it alone explains `alone` of the labels in held-out rows and has `used` of
        the gain, or 97 % of both. Info if only its share of the gain is known.

    Stays quiet:
        When the columns were inspected and the feature alone explains less than 95 % of the labels:
        it leads, but other features matter. When a second column alone explains 90 % of the labels:
        the classes are easy to separate. With fewer than `columns` columns, because one of a few
        columns may well dominate. Before round `rounds`.

    What to do:
        - Train without the feature and compare: `x.drop(columns=[...])`. If the score falls to a
          plausible value, the feature is a leak.
        - Check when the value of the column is known: before the target, or after it.

    Example:
        train = xgboost.DMatrix(table, y)                             # has `paid_at`
        train = xgboost.DMatrix(table.drop(columns=["paid_at"]), y)

    References:
        Kaufman et al. 2012, Leakage in data mining, https://doi.org/10.1145/2382577.2382579
    """

    def judge(one: Boosted) -> Found | None:
        gains, seen = one.gains, one.columns
        if gains is None:
            raise NotEnoughData("no split was recorded")
        if gains.columns and gains.columns < columns:
            raise NotApplicable(f"{gains.columns} columns are too few to suspect the best one")
        if gains.round + 1 - one.began.rounds_before < rounds:
            raise NotEnoughData(f"needs {rounds} rounds")
        feature, part = gains.features[0], gains.shares[0]
        told = seen.telling.get(feature, 0.0) if seen is not None else 1.0
        tells = seen is not None and ((told >= alone and part >= used) or min(told, part) >= MOST)
        same = seen is not None and feature in seen.same_as_label
        tells = (tells and not _is_easy(seen)) or same
        if part <= share and not tells:
            return None
        perfect = ""
        if part > share and told >= LEAST:
            perfect = _perfect(window, one, auc, explained, logloss)
        few = seen is not None and seen.looked_at < FEW
        sure = Severity.WARNING if few else Severity.ERROR
        severity = sure if perfect else Severity.WARNING if tells else Severity.INFO
        if same:
            perfect = "it contains the label"
        elif tells:
            perfect = perfect or f"it alone explains {told:.1%} of the labels"
        return Found.of(
            [one.began, gains],
            f"{feature} accounts for {part:.1%} of the gain of all splits (limit {share:.0%})"
            + (f", and {perfect}" if perfect else ""),
            severity=severity,
            count=1,
            layers=(feature,),
            evidence={
                "value": part,
                "limit": share,
                "feature": feature,
                "columns": gains.columns,
                "fit": one.began.fit,
            },
        )

    return judge_each(window, judge)


def _is_easy(seen: ColumnsSeen | None) -> bool:
    """Return whether at least two columns each explain nearly all labels."""
    shares = seen.telling.values() if seen is not None else ()
    return sum(share >= EASY for share in shares) > 1


def _perfect(window: Window, one: Boosted, auc: float, explained: float, logloss: float) -> str:
    """Describe a nearly perfect first evaluation; '' without such an evaluation."""
    for site in one.held_out:
        for name in one.began.metrics:
            sort = kind(name)
            series = next((s for s in window.scalars(name, Mode.EVAL) if s.of == site), None)
            if series is None or not len(series):
                continue
            first = float(series.early_S[0] if len(series.early_S) else series.values_S[0])
            wrong = 1 - first if sort == "accuracy" else first
            few_errors = sort in ERROR_RATES and wrong <= 1 - auc < _rarest(one)
            if few_errors or (sort == "auc" and first >= auc):
                return f"{name} on {site} is {first:.4f} after the first round"
            explains = sort in ("rmse", "mse") and _explains(one, site, series, sort, explained)
            if explains or (sort == "logloss" and _separates(one, series, logloss)):
                return f"{name} on {site} falls as fast as the learning rate allows"
    return ""


def _rarest(one: Boosted) -> float:
    """Return the error rate of always predicting the most frequent class, 0 if unknown."""
    table = one.tables.get("")
    counts = table.label_counts if table is not None else None
    return 1 - max(counts) / sum(counts) if counts else 0.0


def _explains(one: Boosted, site: str, series: Series, sort: str, explained: float) -> bool:
    table, rate = one.tables.get(site), one.began.learning_rate
    early = series.early_S if len(series.early_S) else series.values_S[:1]
    if table is None or not table.label_std or not rate or series.total < len(early):
        return False
    left = max(0.0, 1 - rate) ** len(early)
    last = math.sqrt(early[-1]) if sort == "mse" else float(early[-1])
    return last / table.label_std <= left + math.sqrt(1 - explained)


def _separates(one: Boosted, series: Series, logloss: float) -> bool:
    """Return whether a two-class loss is as low as with trees that are always right.

    Such trees move the margin of each row by the learning rate over the probability of its
    class, which is a Newton step. The first margin follows from the share of its class.
    """
    table, rate = one.tables.get(""), one.began.learning_rate
    counts = table.label_counts if table is not None else None
    early = series.early_S if len(series.early_S) else series.values_S[:1]
    two = counts is not None and len(counts) == 2 and min(counts) > 0
    if not counts or not two or not rate or series.total < len(early):
        return False
    least = 0.0
    for count in counts:
        share = count / sum(counts)
        margin = math.log(share / (1 - share))
        for _ in early:
            margin += rate * (1 + math.exp(-margin))
        least += share * math.log1p(math.exp(-margin))
    return float(early[-1]) <= logloss * least
