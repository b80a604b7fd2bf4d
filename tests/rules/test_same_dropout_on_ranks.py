from __future__ import annotations

import pytest
from tests.rules.ranks import STEPS, check
from tests.rules.test_ranks_diverge import started
from tests.rules.windows import window

from mothtrap.core.errors import NotApplicable, NotEnoughData
from mothtrap.core.fact import Fact
from mothtrap.core.facts.replicas import DropoutState, ReplicaBatch
from mothtrap.core.findings import Severity
from mothtrap.rules.same_dropout_on_ranks import same_dropout_on_ranks

RULE = same_dropout_on_ranks()


def states(digests: str) -> list[Fact]:
    return [
        DropoutState(step=step, digest=digest, modules=("drop1", "drop2"), location="train.py:7")
        for step, digest in zip(STEPS, digests, strict=False)
    ]


def test_equal_states_that_change_are_a_note() -> None:
    [found] = check(RULE, states("abcde"), states("abcde"))
    assert (found.severity, found.step, found.last_step) == (Severity.INFO, 0, 15)
    assert (found.workers, found.layers) == ((0, 1), ("drop1", "drop2"))
    assert found.location == "train.py:7"
    assert "all 2 ranks draw the same dropout masks in drop1 and 1 more" in found.message


def test_quiet_on_different_states_and_on_some_that_never_change() -> None:
    assert check(RULE, states("abcde"), states("vwxyz")) == []
    assert check(RULE, states("abcde"), states("abcde"), states("vwxyz")) == []
    assert check(RULE, states("aaaaa"), states("aaaaa")) == []


def test_workers_that_hold_parts_of_one_model_need_equal_masks() -> None:
    batch = ReplicaBatch(step=0, lowest=0, size=2, digest="a", in_parts=True)
    with pytest.raises(NotApplicable, match="parts of one model"):
        check(RULE, [*states("abcde"), batch], [*states("abcde"), batch])


def test_says_why_it_cannot_judge() -> None:
    with pytest.raises(NotApplicable, match="one rank"):
        RULE.check(window(started(1), steps=5))
    with pytest.raises(NotApplicable, match="no trained model has active dropout"):
        check(RULE, [], [])
    with pytest.raises(NotEnoughData, match="4 steps"):
        check(RULE, states("abc"), states("abc"))
    with pytest.raises(NotApplicable, match="do not average"):
        check(RULE, states("abcde"), states("abcde"), common=list)
