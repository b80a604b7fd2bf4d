"""TRE917: the metric does not fit the objective."""

from __future__ import annotations

from dataclasses import dataclass

from mothtrap.core.errors import NotApplicable
from mothtrap.core.facts.trees import BoostingBegan, TableSeen
from mothtrap.core.findings import Finding, Severity
from mothtrap.core.metrics import OF_CLASSES, OF_NUMBERS, kind
from mothtrap.core.needs import Need
from mothtrap.core.rule import Rule
from mothtrap.core.thresholds import threshold
from mothtrap.core.window import Window
from mothtrap.rules._trees import OF_BOOSTED, Boosted, judge_each


@dataclass(frozen=True)
class MetricMismatch(Rule):
    """The metric does not fit the objective.

    What it detects:
        Classes that are judged by distances of numbers only, numbers that are judged by a share
        of right ones, and relative errors of labels near 0.

    Why it matters:
        Early stopping, the search for parameters and you choose by the metric. A squared error of
        probabilities hardly moves where ranks change; a relative error of a label of 0 is
        infinite, or as large as the library's floor makes it.

    Fires:
        Warning when all metrics of a classifier are of numbers, when one of a regression is of
        classes, or when labels of a relative error (`mape`) hold values within `near` of their
        spread around 0.

    Stays quiet:
        Where a fitting metric is evaluated, too; ranking; metrics of your own.

    What to do:
        - XGBoost: Judge two classes by `logloss`, `auc` or `aucpr`; several by `mlogloss`;
          numbers by `rmse` or `mae`.
        - LightGBM: Judge two classes by `binary_logloss`, `auc` or `average_precision`;
          several by `multi_logloss`; numbers by `rmse` or `mae`.
        - CatBoost: Judge two classes by `Logloss`, `AUC` or `PRAUC`; several by `MultiClass`;
          numbers by `RMSE` or `MAE`.

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
        """Judge every training of trees."""
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
                return f"classes ({objective}) are judged by {names}, a metric of numbers"
            return ""
        if one.began.task != "regression":
            return ""
        wrong = [name for name, sort in known.items() if sort in OF_CLASSES]
        if wrong:
            return f"numbers ({objective}) are judged by {wrong[0]}, a metric of classes"
        table = one.tables.get("")
        if "mape" not in known.values() or table is None or table.label_nearest is None:
            return ""
        if table.label_nearest > self.near * (table.label_std or 0.0):
            return ""
        return f"a relative error ({names}) is taken of labels that are 0 or nearly so"
