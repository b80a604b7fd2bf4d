from __future__ import annotations

import pytest
from tests.rules.boosting import FIT, SITE, began
from tests.rules.windows import window

from mothtrap.core.errors import NotApplicable
from mothtrap.core.facts.trees import TablesDiffer, TableSeen
from mothtrap.core.findings import Severity
from mothtrap.rules.eval_table_differs import eval_table_differs


def check(*parts, rule: eval_table_differs = eval_table_differs()):  # noqa: B008
    return rule.check(window(*parts))


def differs(**more) -> TablesDiffer:
    return TablesDiffer(**{"step": 0, "fit": FIT, "site": SITE, "columns": 8} | more)


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"distance": {"age": 41.0, "debt": 9.0}}, "the mean of age is 41"),
        ({"order": (("a", "b"), ("b", "a"))}, "a has the values of b"),
        ({"order": (("b", "a"), ("a", "b")), "by_name": True}, "b is in the place of a"),
        ({"constant": ("late",)}, "1 are constant"),
    ],
)
def test_fires(more, words: str) -> None:
    [finding] = check(began(), differs(**more))
    assert (finding.severity, finding.mode) == (Severity.WARNING, "eval")
    assert words in finding.message
    assert finding.fixes[0].startswith("Select columns by name") is ("order" in more)


def labels(site: str, distinct: int | None, low: float = 0.0, high: float = 1.0) -> TableSeen:
    return TableSeen(
        step=0,
        fit=FIT,
        site=site,
        rows=500,
        columns=8,
        label_mean=0.5,
        label_std=0.4,
        label_min=low,
        label_max=high,
        label_distinct=distinct,
    )


@pytest.mark.parametrize(("high", "words"), [(1.0, "0 or 1"), (9.0, "whole numbers")])
def test_labels_of_another_column(high: float, words: str) -> None:
    train = labels("", 2 if high == 1 else 10, high=high)
    [finding] = check(began(task="regression"), train, labels(SITE, None, low=0.275))
    assert finding.message.endswith(f"such as 0.275, but all training labels are {words}")
    assert finding.fixes[0].startswith("Check that both tables get their labels")
    assert not check(began(task="regression"), train, labels(SITE, 7))
    assert not check(began(task="regression"), labels("", None), labels(SITE, None))


def test_stays_quiet_where_tables_are_alike() -> None:
    assert check(began()) == []


def test_says_why_it_cannot_judge() -> None:
    with pytest.raises(NotApplicable, match="no evals"):
        check(began(sites=(), train_site=""))
