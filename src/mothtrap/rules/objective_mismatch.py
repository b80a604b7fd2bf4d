"""TRE907: the objective does not fit the labels."""

from __future__ import annotations

from mothtrap.core.errors import NotApplicable, NotEnoughData
from mothtrap.core.facts.trees import BoostingBegan, TableSeen
from mothtrap.core.findings import Finding, Severity
from mothtrap.core.frozen import frozen
from mothtrap.core.needs import Need
from mothtrap.core.rule import Rule
from mothtrap.core.thresholds import threshold
from mothtrap.core.window import Window
from mothtrap.rules._trees import OF_BOOSTED, Boosted, judge_each


@frozen
class ObjectiveMismatch(Rule):
    """The objective does not fit the labels.

    What it detects:
        A regression on class labels, a classifier on numeric labels, or a number of classes that
        does not match the labels.

    Why it matters:
        A squared error of class numbers treats class 3 as three times class 1. A classifier of a
        hundred prices learns each price separately. Classes that never occur take up probability,
        and time in each round.

    Fires:
        Warning, with at least `rows` rows, in four cases. A regression has whole labels of two
        values, or of 3 to `levels` values from 0 on, the rarest with at least `even` of the rows of
        the most frequent. A classifier has more than `classes` labels with fewer than `per_class`
        rows each. The labels of two classes are not 0 and 1. More classes are configured than
        occur.

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

    Example:
        xgboost.train({"objective": "reg:squarederror"}, classes_0_and_1)
        xgboost.train({"objective": "binary:logistic"}, classes_0_and_1)

    References:
        https://xgboost.readthedocs.io/en/stable/parameter.html#learning-task-parameters
    """

    code = "TRE907"
    needs = (Need(facts=(BoostingBegan, TableSeen)), OF_BOOSTED)
    explains = ("metric_mismatch", "stopped_too_late", "overfit", "boosting_rate_too_low")
    rows: int = threshold(100, unit="rows", source="chosen by hand")
    levels: int = threshold(10, unit="values of a label", source="chosen by hand")
    even: float = threshold(
        0.3,
        unit="of the rows of the most frequent value",
        source="chosen by hand: the values of a count are less balanced",
    )
    classes: int = threshold(20, unit="classes", source="chosen by hand")
    per_class: float = threshold(20.0, unit="rows of a class", source="chosen by hand")

    def check(self, window: Window) -> list[Finding]:
        """Check every training run of trees."""
        return judge_each(window, self._judge)

    def _judge(self, window: Window, one: Boosted) -> Finding | None:
        table, task = one.tables.get(""), one.began.task
        if table is None:
            raise NotEnoughData("the training data were not inspected")
        if task not in ("two_classes", "classes", "regression"):
            raise NotApplicable(
                f"{one.began.objective} is neither a classification nor a regression objective"
            )
        if table.rows < self.rows:
            raise NotEnoughData(f"needs {self.rows} rows, saw {table.rows}")
        if task == "regression":
            words = self._numbers_that_are_classes(table)
        else:
            words = self._classes_that_are_not(one, table)
        if not words:
            return None
        return self.finding(
            window,
            severity=Severity.WARNING,
            step=one.began.step,
            message=f"the objective is {one.began.objective}, but {words}",
            evidence={
                "objective": one.began.objective,
                "values": table.label_distinct,
                "classes": one.began.classes,
                "rows": table.rows,
                "fit": one.began.fit,
            },
            location=one.began.location,
        )

    def _numbers_that_are_classes(self, table: TableSeen) -> str:
        distinct, low, high = table.label_distinct, table.label_min, table.label_max
        if distinct is None or low is None or high is None:
            return ""
        if distinct == 2:
            return f"the labels form two classes: {low:g} and {high:g}"
        if not 3 <= distinct <= self.levels or low != 0 or high != distinct - 1:
            return ""
        counts = table.value_counts
        if not counts or min(counts) < self.even * max(counts):
            return ""
        return f"the labels form {distinct} classes, 0 to {high:g}, about equally frequent"

    def _classes_that_are_not(self, one: Boosted, table: TableSeen) -> str:
        distinct, low, high = table.label_distinct, table.label_min, table.label_max
        if low is None or high is None:
            return ""
        if distinct is None:
            fractions = one.began.task == "two_classes" and low >= 0 and high <= 1
            return "" if fractions else f"the labels are fractions from {low:.3g} to {high:.3g}"
        if one.began.task == "two_classes" and (distinct > 2 or high > 1):
            return f"the labels are {distinct} whole numbers from {low:g} to {high:g}"
        if distinct > self.classes and table.rows / distinct < self.per_class:
            return (
                f"the labels are {distinct} whole numbers from {low:g} to {high:g}, "
                f"{table.rows / distinct:.1f} rows of each: numbers, not classes"
            )
        if one.began.classes > distinct >= 2:
            classes = f"{one.began.classes} classes are configured"
            return f"{classes}, but only {distinct} occur: {low:g} to {high:g}"
        return ""
