"""TRE911: categories are passed as numbers."""

from __future__ import annotations

from collections.abc import Sequence

from mothtrap.core.errors import NotEnoughData
from mothtrap.core.facts.trees import BoostingBegan, ColumnsSeen
from mothtrap.core.found import Found
from mothtrap.core.needs import Need
from mothtrap.core.own_rules import rule
from mothtrap.core.thresholds import threshold
from mothtrap.core.window import Window
from mothtrap.rules._trees import OF_BOOSTED, Boosted, judge_each

SHOWN = 3
"""Largest number of columns that a message names."""


@rule(
    "TRE911",
    title="categories coded as numbers",
    needs=[Need(facts=(BoostingBegan, ColumnsSeen)), OF_BOOSTED],
    explains=("stopped_too_late", "overfit", "leaf_explosion"),
)
def categorical_as_number(
    window: Window, *, rows: int = threshold(100, unit="rows", source="chosen by hand")
) -> list[Found]:
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
        not declared categorical. If columns of at least 50 numbers are declared instead, whose
        label rises or falls with the numbers, the message names both.

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

    def judge(one: Boosted) -> Found | None:
        if one.columns is None:
            raise NotEnoughData("the columns were not inspected")
        if one.columns.looked_at < rows:
            raise NotEnoughData(f"needs {rows} rows, saw {one.columns.looked_at}")
        codes, ordered = one.columns.codes, one.columns.ordered
        if not codes:
            return None
        if ordered:
            return _declared_others(one, codes, ordered)
        several = len(codes) > 1
        more = f" and {len(codes) - 1} more" if several else ""
        return Found.of(
            one.began,
            f"{codes[0]}{more} {'look' if several else 'looks'} like category codes without an "
            f"order, but {'are' if several else 'is'} passed as "
            f"{'numeric columns' if several else 'a numeric column'}",
            layers=codes[:1],
            evidence={"columns": ", ".join(codes), "fit": one.began.fit},
        )

    return judge_each(window, judge)


def _declared_others(one: Boosted, codes: Sequence[str], ordered: Sequence[str]) -> Found:
    """Report that numeric columns are declared as categories, and codes are not."""
    several = len(codes) > 1
    return Found.of(
        one.began,
        f"{_listed(ordered)} {'are' if len(ordered) > 1 else 'is'} declared as categories, but the "
        f"label follows the numbers; {_listed(codes)}, which {'look' if several else 'looks'} like "
        f"category codes without an order, {'are' if several else 'is'} not declared: the indices "
        "of the categorical columns are probably wrong",
        layers=tuple(codes[:1]),
        evidence={
            "columns": ", ".join(codes),
            "declared": ", ".join(ordered),
            "fit": one.began.fit,
        },
        fixes=(
            "Check which columns are declared as categories: indices count from 0, in the order of "
            "the columns that the model gets. Names are safer.",
            0,
            1,
            2,
        ),
    )


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return ", ".join(names[:SHOWN]) + more
