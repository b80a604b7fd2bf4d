from __future__ import annotations

import pytest
from tests.rules.ranks import STEPS, check
from tests.rules.test_ranks_diverge import started
from tests.rules.windows import window

from mothtrap.core.errors import NotApplicable, NotEnoughData
from mothtrap.core.fact import Fact
from mothtrap.core.facts.replicas import ReplicaBatch
from mothtrap.core.findings import Severity
from mothtrap.rules.batches_differ_on_ranks import batches_differ_on_ranks

RULE = batches_differ_on_ranks()


def batches(digests: str, *, in_parts: bool = True, lowest: int = 0) -> list[Fact]:
    return [
        ReplicaBatch(
            step=s, lowest=lowest, size=2, digest=d, location="train.py:9", in_parts=in_parts
        )
        for s, d in zip(STEPS, digests, strict=True)
    ]


def test_different_batches_from_the_first_step_are_a_warning() -> None:
    [found] = check(RULE, batches("abcde"), batches("vwxyz"))
    assert (found.severity, found.step, found.workers) == (Severity.WARNING, 0, (0, 1))
    assert (found.location, found.count) == ("train.py:9", 5)


def test_after_equal_ones_they_are_an_error() -> None:
    [found] = check(RULE, batches("abcde"), batches("abcyz"))
    assert (found.severity, found.step) == (Severity.ERROR, 4)


def test_quiet_on_equal_batches_on_other_groups_and_on_replicas() -> None:
    assert check(RULE, batches("abcde"), batches("abcde")) == []
    assert check(RULE, batches("abcde"), batches("abcxe")) == []
    pairs = [batches(text, lowest=low) for text, low in (("abcde", 0), ("vwxyz", 2))]
    assert check(RULE, pairs[0], pairs[0], pairs[1], pairs[1]) == []
    with pytest.raises(NotApplicable, match="tensor parallelism"):
        check(RULE, batches("abcde", in_parts=False), batches("vwxyz", in_parts=False))


def test_says_why_it_cannot_judge() -> None:
    with pytest.raises(NotApplicable, match="one rank"):
        RULE.check(window(started(1), steps=5))
    with pytest.raises(NotEnoughData, match="every rank"):
        check(RULE, batches("abcde"), [])
