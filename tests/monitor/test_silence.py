from __future__ import annotations

from mothtrap.core.facts.stalls import WorkerSilent
from mothtrap.core.facts.workers import WorkerEnded, WorkerStarted
from mothtrap.monitor.silence import Silence
from mothtrap.store.node_log import NodeRows, WorkerFact, WorkerStep


class Job:
    """Two nodes with four workers each that make one step per second."""

    def __init__(self) -> None:
        self.now_s = 100.0
        self.silence = Silence(lambda: self.now_s)
        self.step = 0
        self.found: list[WorkerSilent] = []
        for rank in range(8):
            fact = WorkerStarted(
                step=0, rank=rank, world_size=8, pid=1, host=f"node{rank // 4}", framework="torch",
                versions={},
            )  # fmt: skip
            facts = [WorkerFact(rank, self.now_s, fact)]
            self.silence.take(str(rank // 4), NodeRows([], facts, self.now_s))

    def run(
        self,
        seconds: int,
        *without: int,
        nodes: tuple[int, ...] = (0, 1),
        signs: tuple[int, ...] = (),
    ) -> None:
        for _ in range(seconds):
            self.now_s += 1
            self.step += 1
            for node in nodes:
                ranks = [r for r in range(4 * node, 4 * node + 4) if r not in without]
                steps = [WorkerStep(r, self.step, self.now_s, step_s=0.5) for r in ranks]
                alive = {rank: self.now_s for rank in signs if rank // 4 == node}
                self.silence.take(str(node), NodeRows(steps, [], self.now_s, alive))
            self.found += self.silence.changes()


def test_a_worker_that_stops_is_named_once_and_again_when_it_is_back() -> None:
    job = Job()
    job.run(20)
    assert job.found == []
    job.run(14, 5)
    (found,) = job.found
    assert (found.rank, found.host, found.step, found.is_node) == (5, "node1", 20, False)
    assert 12 <= found.silent_s <= 14
    job.run(5, 5)
    assert len(job.found) == 1
    job.run(1)
    assert [each.has_resumed for each in job.found] == [False, True]


def test_a_node_that_sends_nothing_is_silent() -> None:
    job = Job()
    job.run(20)
    job.run(29, nodes=(0,))
    assert job.found == []
    job.run(3, nodes=(0,))
    assert sorted(each.rank for each in job.found) == [4, 5, 6, 7]
    assert all(each.is_node for each in job.found)


def test_if_all_are_quiet_none_is_silent() -> None:
    job = Job()
    job.run(20)
    job.run(60, *range(8))
    assert job.found == []


def test_a_store_that_cannot_be_reached_makes_no_worker_silent() -> None:
    job = Job()
    job.run(20)
    job.run(60, nodes=())
    assert job.found == []


def test_a_worker_that_has_ended_is_not_silent() -> None:
    job = Job()
    job.run(20)
    ended = WorkerEnded(step=20, steps=20, own_s=0.1, wall_s=9.0)
    job.silence.take("0", NodeRows([], [WorkerFact(2, job.now_s, ended)], job.now_s))
    job.run(30, 2)
    assert job.found == []


def test_a_worker_may_pause_twice_as_long_as_before() -> None:
    job = Job()
    job.run(20)
    job.run(11, 3)
    job.run(5)
    job.run(22, 3)
    assert job.found == []
    job.run(5, 3)
    assert [each.rank for each in job.found] == [3]


def test_a_worker_that_gives_signs_of_life_may_take_any_time_for_a_step() -> None:
    job = Job()
    job.run(20)
    job.run(300, 3, signs=(3,))
    assert job.found == []


def test_a_worker_whose_signs_of_life_end_is_named_soon() -> None:
    job = Job()
    job.run(20, signs=tuple(range(8)))
    job.run(9, 3, signs=(0, 1))
    (found,) = job.found
    assert (found.rank, found.step) == (3, 20)
    assert 8 <= found.silent_s <= 9
