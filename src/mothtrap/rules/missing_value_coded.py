"""TRE913: a placeholder number stands for missing values."""

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
class MissingValueCoded(Rule):
    """A placeholder number stands for missing values.

    What it detects:
        A column in which a number such as -999 is frequent and lies far outside all other values,
        while the library is not configured to treat it as missing.

    Why it matters:
        Boosted trees send missing values to the better side of each split. A placeholder goes to
        the side of the smallest or largest numbers, takes up histogram bins, and distorts every
        mean.

    Fires:
        Warning when at least `share` of the rows hold the same value out of -1, +-99, +-999 and so
        on, and it is farther from the other values than they are from each other.

    Stays quiet:
        Values that are passed to the library as missing, and NaN. Columns with few other values.

    What to do:
        - XGBoost: Declare the value as missing: `DMatrix(x, missing=-999)`. For any library,
          replace it: `x.replace(-999, numpy.nan)`.
        - LightGBM, CatBoost, scikit-learn: Replace the value in the data: `x.replace(-999,
          numpy.nan)`.

    Example:
        xgboost.DMatrix(x, y)
        xgboost.DMatrix(x, y, missing=-999)

    References:
        Chen and Guestrin 2016, XGBoost, section 3.4, https://arxiv.org/abs/1603.02754
    """

    code = "TRE913"
    title = "missing values coded as numbers"
    needs = (Need(facts=(BoostingBegan, ColumnsSeen)), OF_BOOSTED)
    explains = ("unnormalized_input",)
    share: float = threshold(0.01, unit="of the rows", source="chosen by hand")

    def check(self, window: Window) -> list[Finding]:
        """Check every training run of trees."""
        return judge_each(window, self._judge)

    def _judge(self, window: Window, one: Boosted) -> Finding | None:
        if one.columns is None:
            raise NotEnoughData("the columns were not inspected")
        found = {name: s for name, s in one.columns.sentinels.items() if s >= self.share}
        if not found:
            return None
        name = max(found, key=lambda each: found[each])
        value = one.columns.sentinel_values[name]
        more = f" (and in {len(found) - 1} more columns)" if len(found) > 1 else ""
        return self.finding(
            window,
            severity=Severity.WARNING,
            step=one.began.step,
            layers=(name,),
            message=(
                f"{found[name]:.1%} of the rows have {value:g} in {name}{more}, far outside all "
                "other values: it stands for a missing value"
            ),
            evidence={
                "value": found[name],
                "limit": self.share,
                "sentinel": value,
                "columns": ", ".join(found),
                "fit": one.began.fit,
            },
            location=one.began.location,
            fixes=self._fixes(one, value),
        )

    def _fixes(self, one: Boosted, value: float) -> tuple[str, ...]:
        replace = f"Replace it: `x.replace({value:g}, numpy.nan)`."
        if one.began.library == "xgboost":
            return (f"Pass `missing={value:g}` to `DMatrix` or the estimator.", replace)
        return (replace,)
