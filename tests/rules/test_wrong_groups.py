from __future__ import annotations

import msgspec
import pytest
from tests.rules.boosting import PLACE, began, table
from tests.rules.windows import window

from mothtrap.core.errors import NotApplicable, NotEnoughData
from mothtrap.core.facts.trees import TableSeen
from mothtrap.core.findings import Finding, Severity
from mothtrap.rules.wrong_groups import wrong_groups

RANKS = began(objective="rank:ndcg", task="ranking", metrics=("ndcg",))


def grouped(groups: int | None, *, single: int = 0, equal: int = 0) -> TableSeen:
    return msgspec.structs.replace(
        table(counts=None), groups=groups, single_groups=single, equal_groups=equal
    )


def check(seen: TableSeen) -> list[Finding]:
    return wrong_groups().check(window(RANKS, seen))


def test_groups_of_a_single_row_are_reported() -> None:
    [found] = check(grouped(400, single=400))
    assert (found.severity, found.location) == (Severity.WARNING, PLACE)
    assert found.message.startswith("of the 400 groups of ")
    assert found.message.endswith("training rows, 400 have a single row")
    assert "qid=query" in found.fixes[0]


def test_groups_of_equal_labels_and_a_single_group_are_reported() -> None:
    [found] = check(grouped(40, equal=38))
    assert "38 have only equal labels" in found.message
    [found] = check(grouped(1))
    assert found.message.endswith("training rows are one group")


def test_stays_quiet() -> None:
    assert check(grouped(40)) == []
    assert check(grouped(40, single=10)) == []
    assert check(grouped(40, equal=30)) == []  # searches without a click


def test_says_why_it_cannot_judge() -> None:
    with pytest.raises(NotApplicable, match="rank"):
        wrong_groups().check(window(began(), grouped(1)))
    with pytest.raises(NotEnoughData, match="unknown"):
        check(grouped(None))
