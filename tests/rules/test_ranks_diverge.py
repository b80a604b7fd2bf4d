from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest
from tests.rules.windows import window

from mothtrap.core.errors import NotApplicable, NotEnoughData
from mothtrap.core.facts.replicas import ReplicaDigests
from mothtrap.core.facts.workers import WorkerStarted
from mothtrap.core.findings import Finding, Severity
from mothtrap.core.window import Window
from mothtrap.rules.ranks_diverge import RanksDiverge


def started(size: int) -> WorkerStarted:
    return WorkerStarted(
        step=0, rank=0, world_size=size, pid=1, host="h", framework="torch", versions={}
    )


def worker(rank: int, digests: dict[int, dict[str, str]], size: int = 3) -> Window:
    seen = [ReplicaDigests(step=step, digests=by) for step, by in digests.items()]
    return window(started(size), *seen, worker=rank, steps=20)


def joined(*workers: Window) -> Window:
    first, *others = workers
    return replace(first, peers=tuple(others))


def check(*workers: dict[int, dict[str, str]]) -> list[Finding]:
    return RanksDiverge().check(joined(*(worker(r, d) for r, d in enumerate(workers))))


SAME = {"fc1": "a", "fc2": "b"}


def test_quiet_while_all_are_equal() -> None:
    assert check({0: SAME, 1: SAME}, {0: SAME, 1: SAME}, {0: SAME}) == []


def test_names_the_odd_worker_the_module_and_the_first_step() -> None:
    other = SAME | {"fc2": "x"}
    (found,) = check({0: SAME, 3: SAME, 7: SAME}, {0: SAME, 3: other, 7: other}, {0: SAME, 3: SAME})
    assert (found.severity, found.step, found.last_step, found.count) == (Severity.ERROR, 3, 7, 2)
    assert (found.workers, found.layers) == ((1,), ("fc2",))
    assert found.evidence == {"modules": 1, "modules_compared": 2, "last_equal_step": 0}
    assert "worker 1 differs from the others in fc2" in found.message
    assert "different between steps 1 and 3" in found.message


def test_of_two_workers_the_higher_is_named_and_of_three_different_ones_all() -> None:
    (two,) = check({0: {"fc": "a"}}, {0: {"fc": "b"}})
    (three,) = check({0: {"fc": "a"}}, {0: {"fc": "b"}}, {0: {"fc": "c"}})
    assert (two.workers, three.workers) == ((1,), (0, 1, 2))
    assert "all differ from each other" in three.message


def test_pieces_of_different_workers_are_not_compared() -> None:
    with pytest.raises(NotEnoughData, match="no step has digests of two workers"):
        check({0: {"fc (shard 1/2 of dim 0)": "a"}}, {0: {"fc (shard 2/2 of dim 0)": "b"}})


def test_says_why_it_cannot_judge() -> None:
    with pytest.raises(NotApplicable, match="one worker"):
        RanksDiverge().check(worker(0, {0: SAME}, size=1))
    with pytest.raises(NotEnoughData, match="at least two workers"):
        RanksDiverge().check(worker(0, {0: SAME}, size=2))
    with pytest.raises(NotEnoughData, match="no step has digests of two"):
        check({0: SAME}, {1: SAME})
    with pytest.raises(NotApplicable, match="no recorded parameter"):
        check({}, {})


def test_the_finding_can_be_stored() -> None:
    (found,) = check({0: {"fc": "a"}}, {0: {"fc": "b"}})
    assert msgspec.json.decode(msgspec.json.encode(found), type=Finding) == found
