"""TRE916: the evaluation table is preprocessed differently from the training table."""

from __future__ import annotations

from mothtrap.core.errors import NotApplicable
from mothtrap.core.facts.estimators import EstimatorFitted
from mothtrap.core.facts.trees import BoostingBegan, TablesDiffer, TableSeen
from mothtrap.core.findings import EvidenceValue
from mothtrap.core.found import Found
from mothtrap.core.needs import Need, any_of
from mothtrap.core.own_rules import rule
from mothtrap.core.window import Window
from mothtrap.rules._trees import OF_BOOSTED, Boosted, judge_each

LABELS_FAR, LABEL_ROWS = 3.0, 100
"""Distance between the mean labels in training standard deviations, and rows of each table; chosen
by hand."""


@rule(
    "TRE916",
    title="evaluation table differs",
    needs=[
        *any_of(
            Need(facts=(BoostingBegan, TableSeen)), Need(facts=(EstimatorFitted, TablesDiffer))
        ),
        OF_BOOSTED,
    ],
    explains=(
        "train_eval_shift",
        "overfit",
        "stopped_too_late",
        "overtraining",
        "nothing_learned",
        "labels_unrelated",
        "leaf_explosion",
        "boosting_rate_too_high",
        "constant_prediction",
    ),
)
def eval_table_differs(window: Window) -> list[Found]:
    """The evaluation table is preprocessed differently from the training table.

    What it detects:
        Columns of an evaluation table whose values are far from the training values, that are in
        a different order, or that are constant.

    Why it matters:
        A model is fitted to the values of each column. If the evaluation table is scaled, encoded
        or ordered differently, the score measures the preprocessing, not the model.

    Fires:
        Warning when the mean of a column is more than 3 training standard deviations away, or its
        spread differs by a factor of ten, unless more than 95 % of its values are equal. Warning
        when at least two columns are each distributed like a different training column. Warning
        when a column that varies in training is constant. Warning when the columns of two frames
        have the same names in different orders. Warning when the mean label of a regression is more
        than 3 training standard deviations away from the mean training label, or when only the
        training labels are all whole numbers.

    Stays quiet:
        For row numbers, for tables with fewer than 100 rows, and for smaller drift. For the labels
        of models that rank rows.

    What to do:
        - Preprocess both tables with the same function, fitted on the training rows: `Pipeline`,
          `ColumnTransformer`.
        - Select columns by name and in one order: `valid[train.columns]`.
        - Transform the labels of both tables in the same way, for example with `np.log1p`. Apply
          the inverse to the predictions.
        - Check that both tables get their labels from the same column.

    Example:
        train, valid = scaler.fit_transform(train), valid
        train, valid = scaler.fit_transform(train), scaler.transform(valid)

    References:
        Sculley et al. 2015, Hidden technical debt in machine learning systems, NeurIPS
    """

    def judge(one: Boosted) -> Found | None:
        if not one.held_out:
            raise NotApplicable("no evals were passed")
        for site in one.held_out:
            ranks = one.began.task == "ranking"  # clicks may be compared with relevance
            labels = "" if ranks else _labels(one.tables.get(""), one.tables.get(site))
            if labels:
                evidence: dict[str, EvidenceValue] = {"site": site, "fit": one.began.fit}
                words = f"the labels of {site} {labels}"
                fixes = (3, 2) if "whole" in labels else (2, 3)
                return Found.of(one.began, words, mode="eval", evidence=evidence, fixes=fixes)
            seen = one.differences.get(site)
            if seen is not None:
                columns, words = _words(seen)
                return Found.of(
                    one.began,
                    f"of {seen.columns} columns of {site} {words}",
                    layers=columns[:1],
                    mode="eval",
                    evidence={
                        "value": len(columns),
                        "site": site,
                        "columns": ", ".join(columns),
                        "fit": one.began.fit,
                    },
                    fixes=_fixes(seen),
                )
        return None

    estimators = {one.fit: one for one in window.seen(EstimatorFitted)}
    for seen in window.seen(TablesDiffer):
        if seen.fit in estimators:
            return [_of_estimator(estimators[seen.fit], seen)]
    if any(window.seen(BoostingBegan)) or not estimators:
        return judge_each(window, judge)
    return []


def _labels(train: TableSeen | None, other: TableSeen | None) -> str:
    """Describe evaluation labels on another scale than the training labels, or return ""."""
    if train is None or other is None or train.label_counts is not None:
        return ""
    if train.label_mean is None or other.label_mean is None or not train.label_std:
        return ""
    if min(train.rows, other.rows) < LABEL_ROWS:
        return ""
    if train.label_distinct is not None and other.label_distinct is None:
        two = f"{train.label_min:g} or {train.label_max:g}"
        known = two if train.label_distinct == 2 else "whole numbers"
        return (
            f"are not all whole numbers, such as {other.label_min:.4g}, but all training labels "
            f"are {known}"
        )
    far = abs(other.label_mean - train.label_mean) / train.label_std
    if far <= LABELS_FAR:
        return ""
    return (
        f"have a mean of {other.label_mean:.4g}, {far:.3g} standard deviations (limit "
        f"{LABELS_FAR:g}) from the mean of the training labels, {train.label_mean:.4g}"
    )


def _of_estimator(one: EstimatorFitted, seen: TablesDiffer) -> Found:
    columns, words = _words(seen)
    return Found.of(
        seen,
        f"of {seen.columns} columns that {one.estimator} gets in {seen.site}, {words}",
        layers=columns[:1],
        mode="eval",
        evidence={
            "value": len(columns),
            "site": seen.site,
            "columns": ", ".join(columns),
            "fit": one.fit,
        },
        location=one.location,
        fixes=_fixes(seen),
    )


def _is_another_order(seen: TablesDiffer) -> bool:
    """Return whether most of the columns that differ have only changed places."""
    return seen.by_name or len(seen.order) >= max(2, len(seen.distance) / 2)


def _fixes(seen: TablesDiffer) -> tuple[int, ...]:
    return (1, 0) if _is_another_order(seen) else (0, 1)


def _words(seen: TablesDiffer) -> tuple[tuple[str, ...], str]:
    if _is_another_order(seen):
        here, there = seen.order[0]
        how = f"{here} has the values of {there}"
        if seen.by_name:
            how = f"{here} is in the place of {there}"
        return (
            tuple(name for name, _ in seen.order),
            f"{len(seen.order)} are in a different order than in training: {how}",
        )
    if seen.distance:
        name = next(iter(seen.distance))
        words = f"the mean of {name} is {seen.distance[name]:.3g} training standard deviations away"
        if name in seen.spread:
            words = f"the spread of {name} differs by a factor of {seen.spread[name]:.3g}"
        return (
            tuple(seen.distance),
            f"{len(seen.distance)} are distributed differently than in training: {words}",
        )
    return seen.constant, f"{len(seen.constant)} are constant, but vary in training"
