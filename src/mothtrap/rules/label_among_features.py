"""EST953: a column leaks the label."""

from __future__ import annotations

from mothtrap.core.errors import NotApplicable, NotEnoughData
from mothtrap.core.facts.estimators import EstimatorFitted
from mothtrap.core.facts.trees import ColumnsSeen
from mothtrap.core.found import Found
from mothtrap.core.needs import Need
from mothtrap.core.own_rules import rule
from mothtrap.core.thresholds import threshold
from mothtrap.core.window import Window


@rule(
    "EST953", needs=[Need(facts=(EstimatorFitted, ColumnsSeen))], explains=("too_good_to_be_true",)
)
def label_among_features(
    window: Window,
    *,
    share: float = threshold(0.98, unit="of the labels", source="chosen by hand"),
    columns: int = threshold(4, unit="columns", source="chosen by hand"),
    rows: int = threshold(300, unit="rows", source="chosen by hand: fewer may agree by chance"),
) -> Found | None:
    """A column leaks the label.

    What it detects:
        A column of the training table that alone predicts nearly all labels of held-out rows.

    Why it matters:
        The column is usually derived from the label, or only known after it. The score is nearly
        perfect, and collapses in production, where the column is not available.

    Fires:
        Warning when one column explains more than `share` of the labels. For numbers this is the
        share of their variance; for classes, the share of the errors of always predicting the
        most frequent class.

    Stays quiet:
        With fewer than `columns` columns or `rows` rows. For boosted trees, which
        `single_feature_dominates` checks.

    What to do:
        - Drop the column and compare the scores: `x.drop(columns=[...])`.
        - Check when the value of the column becomes known: before the label, or after it.

    Example:
        x = frame.drop(columns=["label"])             # has `label_text`
        x = frame.drop(columns=["label", "label_text"])

    References:
        Kaufman et al. 2012, Leakage in data mining, https://doi.org/10.1145/2382577.2382579
    """
    fits = {one.fit: one for one in window.seen(EstimatorFitted)}
    tables = [one for one in window.seen(ColumnsSeen) if one.fit in fits]
    if not tables:
        raise NotEnoughData("no training table was inspected")
    judged = [one for one in tables if one.columns >= columns and one.looked_at >= rows]
    if not judged:
        raise NotApplicable(f"no table has {columns} columns and {rows} rows")
    for table in judged:
        name = max(table.telling, key=lambda each: table.telling[each], default="")
        told = table.telling.get(name, 0.0)
        if told > share:
            same = table.same_as_label
            name = same[0] if same else name
            words = f"alone explains {told:.1%} of the labels (limit {share:.0%})"
            if same:
                words = "contains the label"
            return Found.of(
                table,
                f"column {name} {words}",
                layers=(name,),
                evidence={"value": told, "limit": share, "fit": table.fit},
                location=fits[table.fit].location,
            )
    return None
