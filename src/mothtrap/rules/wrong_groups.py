"""TRE920: a model that ranks rows gets the wrong groups."""

from __future__ import annotations

from mothtrap.core.errors import NotApplicable, NotEnoughData
from mothtrap.core.facts.trees import BoostingBegan, TableSeen
from mothtrap.core.found import Found
from mothtrap.core.needs import Need
from mothtrap.core.own_rules import rule
from mothtrap.core.thresholds import threshold
from mothtrap.core.window import Window
from mothtrap.rules._trees import OF_BOOSTED, Boosted, judge_each


@rule(
    "TRE920",
    needs=[Need(facts=(BoostingBegan, TableSeen)), OF_BOOSTED],
    explains=("tree_not_growing", "nothing_learned", "boosting_rate_too_low", "leaf_explosion"),
)
def wrong_groups(
    window: Window,
    *,
    single: float = threshold(0.5, unit="of the groups", source="chosen by hand"),
    share: float = threshold(
        0.9, unit="of the groups", source="chosen by hand: most searches end without a click"
    ),
    rows: int = threshold(100, unit="training rows", source="chosen by hand"),
) -> list[Found]:
    """A model that ranks rows gets the wrong groups.

    What it detects:
        Training for ranking in which most groups cannot be ranked, or all rows are one group.

    Why it matters:
        The loss compares only rows of the same group, such as the documents of one query. A group
        of one row, or of equal labels, adds nothing to it. A single group compares rows that have
        nothing to do with each other.

    Fires:
        Warning when at least `single` of the training groups have a single row, or when at least
        `share` of them have a single row or only rows with the same label, or when all of at least
        `rows` rows are one group.

    Stays quiet:
        For objectives that do not rank, and when the groups are unknown.

    What to do:
        - XGBoost: Pass the number of the query of each row: `qid=query`, with the rows of a query
          next to each other.
        - LightGBM: Pass the sizes of the groups, in the order of the rows:
          `group=frame.groupby("query", sort=False).size()`.
        - CatBoost: Pass the query of each row: `Pool(x, y, group_id=query)`.

    Example:
        XGBRanker().fit(x, y, qid=range(len(x)))      # a group for each row
        XGBRanker().fit(x, y, qid=query)

    References:
        https://xgboost.readthedocs.io/en/stable/tutorials/learning_to_rank.html
    """

    def judge(one: Boosted) -> Found | None:
        if one.began.task != "ranking":
            raise NotApplicable("the model does not rank rows")
        table = one.tables.get("")
        if table is None or table.groups is None:
            raise NotEnoughData("the groups of the training rows are unknown")
        words = _useless(table, single, share)
        if table.groups == 1 and table.rows >= rows:
            words = f"all {table.rows} training rows are one group"
        if not words:
            return None
        return Found.of(
            one.began,
            words,
            evidence={
                "rows": table.rows,
                "groups": table.groups,
                "single": table.single_groups,
                "equal": table.equal_groups,
                "fit": one.began.fit,
            },
        )

    return judge_each(window, judge)


def _useless(table: TableSeen, single: float, share: float) -> str:
    """Return the number of groups that cannot be ranked, in words; "" if they are few."""
    groups = table.groups or 1
    useless = table.single_groups + table.equal_groups
    if table.single_groups / groups < single and useless / groups < share:
        return ""
    parts = [f"{table.single_groups} have a single row"] if table.single_groups else []
    parts += [f"{table.equal_groups} have only equal labels"] if table.equal_groups else []
    return f"of the {groups} groups of {table.rows} training rows, {' and '.join(parts)}"
