from __future__ import annotations

import pytest
from tests.rules.looks import routed
from tests.rules.windows import window

from mothtrap.core.errors import NotApplicable, NotEnoughData
from mothtrap.core.findings import Severity
from mothtrap.rules.router_collapse import router_collapse

EVEN, ALL_TO_ONE = (0.3, 0.2, 0.25, 0.25), (0.0, 0.98, 0.02, 0.0)


def check(*shares, **more):
    return router_collapse().check(
        window(*[routed(step, each, **more) for step, each in enumerate(shares)])
    )


def test_fires_when_one_expert_gets_nearly_all_rows() -> None:
    [finding] = check(EVEN, EVEN, *[ALL_TO_ONE] * 5)
    assert (finding.severity, finding.step, finding.count) == (Severity.WARNING, 2, 5)
    assert finding.layers == ("moe.gate", "moe.experts")
    assert "98 % of the rows to expert 1 of the 4 in moe.experts; 2 are never" in finding.message


def test_stays_quiet_on_experts_that_share_and_on_a_favorite() -> None:
    assert check(*[EVEN] * 8) == []
    assert check(*[(0.7, 0.1, 0.1, 0.1)] * 8) == []


def test_stays_quiet_when_the_favorite_changes_or_was_one_for_long_enough_only() -> None:
    assert check(*[ALL_TO_ONE, ALL_TO_ONE[::-1]] * 4) == []
    assert check(EVEN, *[ALL_TO_ONE] * 3) == []
    assert check(*[ALL_TO_ONE] * 5, EVEN) == []


def test_cannot_judge_two_experts_few_looks_or_no_router() -> None:
    with pytest.raises(NotApplicable):
        check(*[(1.0, 0.0)] * 8)
    with pytest.raises(NotApplicable):
        router_collapse().check(window(steps=9))
    with pytest.raises(NotEnoughData):
        check(EVEN, EVEN)
    assert check(*[ALL_TO_ONE] * 5, rows=4) == []
