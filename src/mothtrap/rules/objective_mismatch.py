"""TRE907: the objective does not fit the labels."""

from __future__ import annotations

from mothtrap.core.errors import NotApplicable, NotEnoughData
from mothtrap.core.facts.estimators import EstimatorFitted
from mothtrap.core.facts.trees import BoostingBegan, ColumnsSeen, TableSeen
from mothtrap.core.found import Found, SeverityName
from mothtrap.core.needs import Need, any_of
from mothtrap.core.own_rules import rule
from mothtrap.core.thresholds import threshold
from mothtrap.core.window import Window
from mothtrap.rules._trees import OF_BOOSTED, Boosted, judge_each

MANY, ROWS_OF_EACH = 50, 10.0
"""Minimum number of classes, and maximum number of their rows, that may be quantities; by hand."""
TREND, ERRORS = 0.3, 5.0
"""Minimum correlation of a column with such classes, also in standard errors; chosen by hand."""


@rule(
    "TRE907",
    needs=[
        *any_of(Need(facts=(BoostingBegan, TableSeen)), Need(facts=(EstimatorFitted, TableSeen))),
        OF_BOOSTED,
    ],
    explains=("metric_mismatch", "stopped_too_late", "overfit", "boosting_rate_too_low"),
)
def objective_mismatch(
    window: Window,
    *,
    rows: int = threshold(100, unit="rows", source="chosen by hand"),
    levels: int = threshold(10, unit="values of a label", source="chosen by hand"),
    even: float = threshold(
        0.3,
        unit="of the rows of the most frequent value",
        source="chosen by hand: the values of a count are less balanced",
    ),
    classes: int = threshold(20, unit="classes", source="chosen by hand"),
    per_class: float = threshold(20.0, unit="rows of a class", source="chosen by hand"),
) -> list[Found]:
    """The objective does not fit the labels.

    What it detects:
        A regression on class labels, a classifier on numeric labels, or a number of classes that
        does not match the labels. Labels that are ranges whose lower bound is above the upper one.

    Why it matters:
        A squared error of class numbers treats class 3 as three times class 1. A classifier of a
        hundred prices learns each price separately. Classes that never occur take up probability,
        and time in each round.

    Fires:
        Warning, with at least `rows` rows, in four cases. A regression has whole labels of two
        values, or of 3 to `levels` values from 0 on, the rarest with at least `even` of the rows of
        the most frequent. For labels of 0 and 1, this is a note, because a squared error then gives
        probabilities. A classifier has more than `classes` labels with fewer than `per_class` rows
        each. In scikit-learn, these are 50 classes with fewer than 10 rows each, whose numbers
        correlate with a column. The labels of two classes are not 0 and 1. More classes are
        configured than occur.
        Error if, in XGBoost, the `label_lower_bound` of a row is above its `label_upper_bound`.

    Stays quiet:
        Ranking, counts, custom objectives. Whole labels with unequal frequencies, such as counts
        and grades.

    What to do:
        - XGBoost: Choose the objective for the labels: `binary:logistic` or `multi:softprob` for
          classes, `reg:squarederror` for numbers.
        - LightGBM: Choose the objective for the labels: `binary` or `multiclass` for classes,
          `regression` for numbers.
        - CatBoost: Choose the loss for the labels: `Logloss` or `MultiClass` for classes, `RMSE`
          for numbers.
        - scikit-learn: Choose the estimator for the labels: a classifier for classes, a regressor
          for numbers.
        - Set the number of classes to the number of distinct labels, and number the labels from 0:
          `sklearn.preprocessing.LabelEncoder`.
        - XGBoost: Swap the bounds of the labels: `set_float_info("label_lower_bound", lower)`.

    Example:
        xgboost.train({"objective": "reg:squarederror"}, classes_0_and_1)
        xgboost.train({"objective": "binary:logistic"}, classes_0_and_1)

    References:
        https://xgboost.readthedocs.io/en/stable/parameter.html#learning-task-parameters
    """

    def judge(one: Boosted) -> Found | None:
        table, task = one.tables.get(""), one.began.task
        if table is None:
            raise NotEnoughData("the training data were not inspected")
        if table.reversed_bounds:
            return _reversed(one.began, table)
        if task not in ("two_classes", "classes", "regression"):
            raise NotApplicable(
                f"{one.began.objective} is neither a classification nor a regression objective"
            )
        if table.rows < rows:
            raise NotEnoughData(f"needs {rows} rows, saw {table.rows}")
        unused = ""
        if task == "regression":
            words = _numbers_that_are_classes(table, levels, even)
        else:
            words = _classes_that_are_not(one.began, table, classes, per_class)
            unused = _unused_classes(one.began, table)
        if not words and not unused:
            return None
        return Found.of(
            one.began,
            f"the objective is {one.began.objective}, {f'but {words}' if words else unused}",
            severity=_severity(table, task),
            evidence={
                "objective": one.began.objective,
                "values": table.label_distinct,
                "classes": one.began.classes,
                "rows": table.rows,
                "fit": one.began.fit,
            },
            fixes=(0, 1, 2, 4) if words else (4,),
        )

    if any(window.seen(BoostingBegan)) or not any(window.seen(EstimatorFitted)):
        return judge_each(window, judge)
    return _of_estimators(window, rows, levels, even)


def _of_estimators(window: Window, rows: int, levels: int, even: float) -> list[Found]:
    """Report scikit-learn estimators of the wrong kind for their labels."""
    tables = {one.fit: one for one in window.seen(TableSeen) if not one.site}
    trends = {one.fit: one.trend for one in window.seen(ColumnsSeen)}
    for one in window.seen(EstimatorFitted):
        table = tables.get(one.fit)
        if table is None or table.rows < rows:
            continue
        is_regressor = one.task == "regression"
        if is_regressor:
            words = _numbers_that_are_classes(table, levels, even)
        else:
            words = _quantities(one, trends.get(one.fit))
        if words:
            return [
                Found.of(
                    one,
                    f"{one.estimator} is a {'regressor' if is_regressor else 'classifier'}, "
                    f"but {words}",
                    severity=_severity(table, one.task),
                    evidence={"values": table.label_distinct, "rows": table.rows, "fit": one.fit},
                    fixes=(3, 4) if is_regressor else (3,),
                )
            ]
    return []


def _quantities(one: EstimatorFitted, trend: float | None) -> str:
    """Return, in words, that the classes of a classifier are quantities; "" if they are not.

    The numbers of many classes rarely correlate with a column by chance: the standard error is one
    over the root of their number.
    """
    classes = len(one.label_counts)
    if classes < MANY or trend is None or sum(one.label_counts) / classes >= ROWS_OF_EACH:
        return ""
    if trend < max(TREND, ERRORS / classes**0.5):
        return ""
    return (
        f"its {classes} classes have {sum(one.label_counts) / classes:.1f} rows each, and their "
        f"numbers rise or fall with a column (correlation {trend:.2f}): they are quantities"
    )


def _reversed(began: BoostingBegan, table: TableSeen) -> Found:
    return Found.of(
        began,
        f"in {table.reversed_bounds} of {table.rows} rows, `label_lower_bound` is above "
        "`label_upper_bound`, so no prediction fits the label",
        severity="error",
        evidence={"reversed": table.reversed_bounds, "rows": table.rows, "fit": began.fit},
        location=table.location or began.location,
        fixes=(5,),
    )


def _severity(table: TableSeen, task: str) -> SeverityName:
    """Return `info` for a regression on labels of 0 and 1, which predicts probabilities."""
    is_binary = (table.label_distinct, table.label_min, table.label_max) == (2, 0, 1)
    return "info" if task == "regression" and is_binary else "warning"


def _numbers_that_are_classes(table: TableSeen, levels: int, even: float) -> str:
    distinct, low, high = table.label_distinct, table.label_min, table.label_max
    if distinct is None or low is None or high is None:
        return ""
    if distinct == 2:
        return f"the labels form two classes: {low:g} and {high:g}"
    if not 3 <= distinct <= levels or low != 0 or high != distinct - 1:
        return ""
    counts = table.value_counts
    if not counts or min(counts) < even * max(counts):
        return ""
    return f"the labels form {distinct} classes, 0 to {high:g}, about equally frequent"


def _classes_that_are_not(
    began: BoostingBegan, table: TableSeen, classes: int, per_class: float
) -> str:
    distinct, low, high = table.label_distinct, table.label_min, table.label_max
    if low is None or high is None:
        return ""
    if distinct is None:
        fractions = began.task == "two_classes" and low >= 0 and high <= 1
        return "" if fractions else f"the labels are fractions from {low:.3g} to {high:.3g}"
    if began.task == "two_classes" and (distinct > 2 or high > 1):
        return f"the labels are {distinct} whole numbers from {low:g} to {high:g}"
    if distinct > classes and table.rows / distinct < per_class:
        return (
            f"the labels are {distinct} whole numbers from {low:g} to {high:g}, "
            f"{table.rows / distinct:.1f} rows of each: numbers, not classes"
        )
    return ""


def _unused_classes(began: BoostingBegan, table: TableSeen) -> str:
    distinct, low, high = table.label_distinct, table.label_min, table.label_max
    if low is None or high is None or distinct is None or not began.classes > distinct >= 2:
        return ""
    return (
        f"and {began.classes} classes are configured, but only {distinct} occur: {low:g} to "
        f"{high:g}"
    )
