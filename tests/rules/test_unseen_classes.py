from __future__ import annotations

import msgspec
import numpy as np
import pytest
from tests.rules.classified import classified
from tests.rules.evaluations import evaluations
from tests.rules.windows import loss, window

from mothtrap.core.errors import NotApplicable, NotEnoughData
from mothtrap.core.fact import Fact
from mothtrap.core.facts.evaluations import Evaluation
from mothtrap.core.facts.trees import TableSeen
from mothtrap.core.findings import Finding, Severity
from mothtrap.rules.unseen_classes import UnseenClasses

HALF = [[50, 0, 0], [0, 50, 0], [0, 0, 0]]
"""Training has classes 0 and 1 of three."""


def evaluated(*counts: int, site: str = "valid.py:3") -> Evaluation:
    [made] = evaluations([0.5], site=site)
    return msgspec.structs.replace(made, label_counts=counts or None)


def table(site: str, *counts: int, fit: str = "fit 1") -> TableSeen:
    return TableSeen(
        step=0,
        fit=fit,
        site=site,
        rows=sum(counts),
        columns=4,
        label_counts=counts or None,
        location="boost.py:7",
    )


def check(*facts: Fact) -> list[Finding]:
    return UnseenClasses().check(window(loss(np.ones(100)), *facts))


def test_fires_on_classes_that_no_label_of_training_had() -> None:
    [finding] = check(*classified(HALF), evaluated(30, 30, 20))
    assert (finding.severity, finding.step, finding.mode) == (Severity.WARNING, 10, "eval")
    assert finding.evidence["classes"] == [2]
    assert "25 % of the evaluation labels are of class 2" in finding.message


def test_the_table_of_an_evaluation_may_have_more_classes() -> None:
    [finding] = check(table("", 400, 300), table("valid", 0, 0, 1, 1, 1, 1, 1, 1, 1))
    assert "classes 2, 3, 4, 5, 6 and 2 others" in finding.message


def test_another_head_and_training_from_classes_to_classes_are_quiet() -> None:
    with pytest.raises(NotEnoughData):
        check(*classified(HALF), evaluated(0, 0, 0, 9, 9))
    earlier = classified([[90, 0, 0], [0, 0, 0], [0, 0, 0]], looks=16)
    later = classified([[0, 0, 0], [0, 90, 0], [0, 0, 0]], looks=300)[16:]
    with pytest.raises(NotApplicable, match="moves on to other classes"):
        check(*earlier, *later, evaluated(30, 30, 30))


def test_many_classes_are_missed_by_chance() -> None:
    made = [
        msgspec.structs.replace(one, label_counts=tuple([3] * 60 + [0] * 40))
        for one in classified(HALF, looks=2)
    ]
    assert check(*made, evaluated(*([0] * 60 + [9] * 40))) == []


@pytest.mark.parametrize("counts", [(30, 30, 0), (30, 30), (60, 0, 0), (50, 47, 3)])
def test_quiet_on_the_same_classes_and_on_few_rows_of_others(counts: tuple[int, ...]) -> None:
    assert check(*classified(HALF), evaluated(*counts)) == []


def test_only_the_latest_evaluation_of_a_site_counts() -> None:
    assert check(*classified(HALF), evaluated(0, 0, 9), evaluated(9, 0, 0)) == []
    both = evaluated(0, 0, 9), evaluated(9, 0, 0, site="train.py:9")
    assert len(check(*classified(HALF), *both)) == 1


def test_judges_the_tables_of_boosted_trees() -> None:
    sick = table("", 400, 300), table("valid", 10, 10, 30)
    [finding] = check(*sick)
    assert (finding.location, finding.evidence["classes"]) == ("boost.py:7", [2])
    assert check(table("", 400, 300, 20), table("valid", 10, 10, 30)) == []
    assert check(table("", 400, 300), table("valid", 10, 10), table("valid", 9, fit="fit 0")) == []


def test_says_what_is_missing() -> None:
    with pytest.raises(NotEnoughData, match="training labels, saw"):
        check(*classified([[5, 0], [0, 5]]), evaluated(1, 1))
    with pytest.raises(NotEnoughData, match="no evaluation"):
        check(*classified(HALF), evaluated())
    with pytest.raises(NotApplicable, match="classifier"):
        check(table(""))
