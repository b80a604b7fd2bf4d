from __future__ import annotations

from collections.abc import Sequence

import pytest
from tests.rules.test_ranks_diverge import joined, started
from tests.rules.windows import window

from mothtrap.core.errors import NotApplicable, NotEnoughData
from mothtrap.core.facts.replicas import ReplicaBatch
from mothtrap.core.findings import Finding, Severity
from mothtrap.core.window import Window
from mothtrap.rules.same_batches_on_ranks import same_batches_on_ranks

STEPS = (0, 1, 3, 7, 15, 31)


def worker(rank: int, digests: Sequence[str], lowest: int = 0, size: int = 2) -> Window:
    seen = [
        ReplicaBatch(step=step, lowest=lowest, size=size, digest=digest, location="train.py:9")
        for step, digest in zip(STEPS, digests, strict=False)
    ]
    return window(started(2), *seen, worker=rank, steps=40)


def check(*workers: Window) -> list[Finding]:
    return same_batches_on_ranks().check(joined(*workers))


def test_equal_batches_that_change_are_told() -> None:
    [found] = check(worker(0, "abcdef"), worker(1, "abcdef"))
    assert (found.severity, found.step, found.last_step) == (Severity.WARNING, 0, 31)
    assert (found.workers, found.location) == ((0, 1), "train.py:9")
    assert "all 2 ranks train on the same batches" in found.message
    assert "DistributedSampler" in found.fixes[0]


def test_they_are_dated_to_where_they_begin_to_be_equal() -> None:
    [found] = check(worker(0, "abcdef"), worker(1, "xbcdef"))
    assert (found.step, found.count) == (1, 5)
    [found] = check(worker(0, "abcdef"), worker(1, "abcdxf"))
    assert (found.step, found.last_step) == (0, 7)


def test_quiet_on_different_batches_and_on_a_few_equal_ones() -> None:
    assert check(worker(0, "abcdef"), worker(1, "uvwxyz")) == []
    assert check(worker(0, "abcdef"), worker(1, "abcxef")) == []


def test_quiet_on_one_batch_again_and_again() -> None:
    assert check(worker(0, "aaaaaa"), worker(1, "aaaaaa")) == []
    assert check(worker(0, "ababab"), worker(1, "ababab")) == []


def test_quiet_where_only_some_share_a_batch() -> None:
    workers = [worker(rank, text, size=3) for rank, text in enumerate(["abcd", "abcd", "wxyz"])]
    assert check(*workers) == []


def test_only_workers_that_average_together_are_compared() -> None:
    """Ranks 0 and 1 hold parts of one model, and get the same batch; so do ranks 2 and 3."""
    texts, groups = ("abcd", "abcd", "wxyz", "wxyz"), (0, 1, 0, 1)
    workers = [worker(r, t, lowest=g) for r, (t, g) in enumerate(zip(texts, groups, strict=True))]
    assert check(*workers) == []
    [found] = check(*workers[:3], worker(3, "abcd", lowest=1))
    assert found.workers == (1, 3)


def test_says_why_it_cannot_judge() -> None:
    with pytest.raises(NotApplicable, match="one rank"):
        check(window(started(1), steps=5))
    with pytest.raises(NotApplicable, match="no batches of a model in DistributedDataParallel"):
        check(worker(0, ""), worker(1, ""))
    with pytest.raises(NotEnoughData, match="4 batches from all ranks"):
        check(worker(0, "abc"), worker(1, "abc"))
    with pytest.raises(NotEnoughData, match="4 batches from all ranks"):
        check(worker(0, "abcdef"))
