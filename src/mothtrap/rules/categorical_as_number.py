"""TRE911: categories are passed as numbers."""

from __future__ import annotations

from mothtrap.core.errors import NotEnoughData
from mothtrap.core.facts.trees import BoostingBegan, ColumnsSeen
from mothtrap.core.findings import Finding, Severity
from mothtrap.core.frozen import frozen
from mothtrap.core.needs import Need
from mothtrap.core.rule import Rule
from mothtrap.core.thresholds import threshold
from mothtrap.core.window import Window
from mothtrap.rules._trees import OF_BOOSTED, Boosted, judge_each


@frozen
class CategoricalAsNumber(Rule):
    """Categories are passed as numbers.

    What it detects:
        A column of integers that are category codes without an order, such as the code of a city,
        a product or a profession.

    Why it matters:
        A split at "below 17" groups categories by their arbitrary codes. The model needs many
        splits and rows to isolate the categories that matter.

    Fires:
        Warning, with at least `rows` rows, when the mean label per code explains at least 5 % of
        the variance of the label, and neighboring codes differ as much as any two codes (von
        Neumann's ratio above 0.6). The column has 6 to 1,000 codes with 5 rows or more, and is
        not declared categorical.

    Stays quiet:
        For columns declared categorical, for few codes, with more than two classes, and for
        ordered numbers, even if the label does not rise with them (hours, ages).

    What to do:
        - XGBoost: Declare it: a pandas column of `category`, with `enable_categorical=True`.
        - LightGBM: Declare it: `categorical_feature=[...]`, or a pandas column of `category`.
        - CatBoost: Declare it: `cat_features=[...]`.
        - scikit-learn: Declare it: `categorical_features=[...]` of the histogram estimators.
        - XGBoost, scikit-learn: Or one-hot encode the frequent categories:
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
        """Check every training run of trees."""
        return judge_each(window, self._judge)

    def _judge(self, window: Window, one: Boosted) -> Finding | None:
        if one.columns is None:
            raise NotEnoughData("the columns were not inspected")
        if one.columns.looked_at < self.rows:
            raise NotEnoughData(f"needs {self.rows} rows, saw {one.columns.looked_at}")
        codes = one.columns.codes
        if not codes:
            return None
        several = len(codes) > 1
        more = f" and {len(codes) - 1} more" if several else ""
        return self.finding(
            window,
            severity=Severity.WARNING,
            step=one.began.step,
            layers=codes[:1],
            message=(
                f"{codes[0]}{more} {'look' if several else 'looks'} like category codes without an "
                f"order, but {'are' if several else 'is'} passed as "
                f"{'numeric columns' if several else 'a numeric column'}"
            ),
            evidence={"columns": ", ".join(codes), "fit": one.began.fit},
            location=one.began.location,
        )
