"""TRE917: the metric does not fit the objective."""

from __future__ import annotations

from mothtrap.core.errors import NotApplicable
from mothtrap.core.facts.trees import BoostingBegan, TableSeen
from mothtrap.core.findings import Finding, Severity
from mothtrap.core.frozen import frozen
from mothtrap.core.metrics import OF_CLASSES, OF_NUMBERS, kind
from mothtrap.core.needs import Need
from mothtrap.core.rule import Rule
from mothtrap.core.thresholds import threshold
from mothtrap.core.window import Window
from mothtrap.rules._trees import OF_BOOSTED, Boosted, judge_each


@frozen
class MetricMismatch(Rule):
    """The metric does not fit the objective.

    What it detects:
        Classifiers that are evaluated only with metrics for numbers, regressions that are evaluated
        with a metric for classes, and relative errors of labels near 0.

    Why it matters:
        Early stopping and hyperparameter searches select by the metric, and so do people. The
        squared error of probabilities hardly changes when the ranking of rows changes. The
        relative error of a label of 0 is infinite, or depends on the library's lower limit.

    Fires:
        Warning when all metrics of a classifier are for numbers, when a metric of a regression is
        for classes, or when labels of a relative error (`mape`) contain values within `near` of
        their spread around 0.

    Stays quiet:
        When a suitable metric is evaluated, too. Ranking. Custom metrics.

    What to do:
        - XGBoost: Evaluate two classes with `logloss`, `auc` or `aucpr`; several classes with
          `mlogloss`; numbers with `rmse` or `mae`.
        - LightGBM: Evaluate two classes with `binary_logloss`, `auc` or `average_precision`;
          several classes with `multi_logloss`; numbers with `rmse` or `mae`.
        - CatBoost: Evaluate two classes with `Logloss`, `AUC` or `PRAUC`; several classes with
          `MultiClass`; numbers with `RMSE` or `MAE`.

    Example:
        XGBClassifier(eval_metric="rmse")
        XGBClassifier(eval_metric="logloss")

    References:
        Gneiting and Raftery 2007, Strictly proper scoring rules,
        https://doi.org/10.1198/016214506000001437
    """

    code = "TRE917"
    needs = (Need(facts=(BoostingBegan, TableSeen)), OF_BOOSTED)
    explains = ("stopped_too_late",)
    near: float = threshold(0.001, unit="of the spread of the labels", source="chosen by hand")

    def check(self, window: Window) -> list[Finding]:
        """Check every training run of trees."""
        return judge_each(window, self._judge)

    def _judge(self, window: Window, one: Boosted) -> Finding | None:
        kinds = {name: kind(name) for name in one.began.metrics}
        known = {name: sort for name, sort in kinds.items() if sort}
        if not known:
            raise NotApplicable("no metric of the library is evaluated")
        words = self._words(one, known)
        if not words or len(known) < len(kinds):
            return None
        return self.finding(
            window,
            severity=Severity.WARNING,
            step=one.began.step,
            mode="eval",
            message=words,
            evidence={
                "metrics": ", ".join(known),
                "objective": one.began.objective,
                "fit": one.began.fit,
            },
            location=one.began.location,
        )

    def _words(self, one: Boosted, known: dict[str, str]) -> str:
        names, objective = ", ".join(known), one.began.objective
        if one.began.task in ("two_classes", "classes"):
            if all(sort in OF_NUMBERS for sort in known.values()):
                return (
                    f"a classification objective ({objective}) is evaluated with {names}, a "
                    "regression metric"
                )
            return ""
        if one.began.task != "regression":
            return ""
        wrong = [name for name, sort in known.items() if sort in OF_CLASSES]
        if wrong:
            return (
                f"a regression objective ({objective}) is evaluated with {wrong[0]}, a "
                "classification metric"
            )
        table = one.tables.get("")
        if "mape" not in known.values() or table is None or table.label_nearest is None:
            return ""
        if table.label_nearest > self.near * (table.label_std or 0.0):
            return ""
        return f"a relative error ({names}) is computed for labels that are 0 or nearly 0"
