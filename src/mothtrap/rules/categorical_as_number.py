"""TRE911: categories are passed as numbers."""

from __future__ import annotations

from dataclasses import dataclass

from mothtrap.core.errors import NotEnoughData
from mothtrap.core.facts.trees import BoostingBegan, ColumnsSeen
from mothtrap.core.findings import Finding, Severity
from mothtrap.core.needs import Need
from mothtrap.core.rule import Rule
from mothtrap.core.thresholds import threshold
from mothtrap.core.window import Window
from mothtrap.rules._trees import OF_BOOSTED, Boosted, judge_each


@dataclass(frozen=True)
class CategoricalAsNumber(Rule):
    """Categories are passed as numbers.

    What it detects:
        A column of whole numbers whose levels explain the label, in no order: the number of a
        city, a product, a profession.

    Why it matters:
        A split says "below 17 or not", which groups categories by the accident of their numbers.
        It takes many splits, and rows, to single out the levels that matter.

    Fires:
        Warning, with at least `rows` rows, when the means of the label by level explain at least
        5 % of its variance, and neighbors in the order of numbers are as different as any two
        levels (von Neumann's ratio above 0.6). The column has 6 to 1,000 levels of 5 rows or more,
        and is not declared.

    Stays quiet:
        Columns that are declared as categories; few levels; more than two classes; numbers with an
        order, also where the label does not rise with them (hours, ages).

    What to do:
        - XGBoost: Declare it: a pandas column of `category`, with `enable_categorical=True`.
        - LightGBM: Declare it: `categorical_feature=[...]`, or a pandas column of `category`.
        - CatBoost: Declare it: `cat_features=[...]`.
        - scikit-learn: Declare it: `categorical_features=[...]` of the histogram estimators.
        - XGBoost, scikit-learn: Or pass one column for each frequent level:
          `pandas.get_dummies`.

    Example:
        lightgbm.Dataset(x, y)
        lightgbm.Dataset(x, y, categorical_feature=["city"])

    References:
        Fisher 1958, On grouping for maximum homogeneity, https://doi.org/10.2307/2281952;
        von Neumann 1941, https://doi.org/10.1214/aoms/1177731677
    """

    code = "TRE911"
    title = "categories coded as numbers"
    needs = (Need(facts=(BoostingBegan, ColumnsSeen)), OF_BOOSTED)
    explains = ("stopped_too_late", "overfit", "leaf_explosion")
    rows: int = threshold(100, unit="rows", source="chosen by hand")

    def check(self, window: Window) -> list[Finding]:
        """Judge every training of trees."""
        return judge_each(window, self._judge)

    def _judge(self, window: Window, one: Boosted) -> Finding | None:
        if one.columns is None:
            raise NotEnoughData("the columns were not looked at")
        if one.columns.looked_at < self.rows:
            raise NotEnoughData(f"{one.columns.looked_at} rows are few, {self.rows} are needed")
        codes = one.columns.codes
        if not codes:
            return None
        more = f" and {len(codes) - 1} more" if len(codes) > 1 else ""
        return self.finding(
            window,
            severity=Severity.WARNING,
            step=one.began.step,
            layers=codes[:1],
            message=(
                f"{codes[0]}{more}: whole numbers whose levels explain the label, in no order; "
                "they are passed as numbers, not as categories"
            ),
            evidence={"columns": ", ".join(codes), "fit": one.began.fit},
            location=one.began.location,
        )
