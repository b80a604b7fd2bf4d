from __future__ import annotations

import pytest
from tests.rules.looks import attention
from tests.rules.windows import window

from mothtrap.core.errors import NotApplicable
from mothtrap.core.findings import Severity
from mothtrap.rules.attention_logit_growth import AttentionLogitGrowth

STEPS = [0, 1, 2, 50, 100, 200, 300, 400]


def check(scores: list[float | None], steps=STEPS):
    looks = [attention(at, largest_logit=score) for at, score in zip(steps, scores, strict=True)]
    return AttentionLogitGrowth().check(window(*looks))


def test_fires_at_once_on_huge_scores() -> None:
    [finding] = check([900.0, 950.0], steps=[0, 1])
    assert (finding.severity, finding.step, finding.count) == (Severity.WARNING, 0, 2)
    assert (finding.layers, finding.location) == (("attention 1 of 1",), "train.py:9")


def test_fires_on_large_scores_that_grow_on() -> None:
    [finding] = check([2, 2, 3, 5, 10, 20, 45, 80])
    assert finding.step == 200
    assert "is 80, 20 in step 200" in finding.message


def test_stays_quiet_on_large_scores_that_stay_and_on_small_ones_that_grow() -> None:
    assert check([60.0] * 8) == []
    assert check([1, 1, 2, 3, 5, 10, 20, 40]) == []
    assert check([2, 2, 3, 5, 10, 60, 90, 80]) == []


def test_one_huge_look_is_no_illness() -> None:
    assert check([2, 2, 900, 5, 6, 6, 6, 6]) == []


def test_does_not_apply_where_scores_are_not_kept() -> None:
    with pytest.raises(NotApplicable, match="weights"):
        check([None] * 8)
    with pytest.raises(NotApplicable):
        AttentionLogitGrowth().check(window(steps=9))
