from __future__ import annotations

import math
from pathlib import Path

import pytest

from mothtrap.core.config import Config
from mothtrap.core.facts.replicas import ReplicaDigests
from mothtrap.core.facts.workers import WorkerPace, WorkerStarted
from mothtrap.core.findings import Finding
from mothtrap.core.quiet import Quiet
from mothtrap.monitor.catalogue import load_rules
from mothtrap.monitor.joined_nodes import JoinedNodes
from mothtrap.store.layout import node_folder
from mothtrap.store.node_log import NodeLog, WorkerFact, WorkerStep

RANKS = 16
NODES = [f"{number:08x}" for number in range(4)]


class Job:
    """Four nodes with four workers each."""

    def __init__(self, attempt: Path) -> None:
        self._logs = [NodeLog(node_folder(attempt, name)) for name in NODES]
        self.nodes = JoinedNodes(attempt, load_rules(Config()), Quiet())
        for rank in range(RANKS):
            self.tell(
                rank,
                WorkerStarted(
                    step=0, rank=rank, world_size=RANKS, pid=1, host=f"node{rank // 4}",
                    framework="torch", versions={},
                ),
            )  # fmt: skip

    def tell(self, rank: int, *facts: WorkerStarted | ReplicaDigests | WorkerPace) -> None:
        told = [WorkerFact(rank, 1.0 + fact.step, fact) for fact in facts]
        self._logs[rank // 4].append([], told, 1.0)

    def train(self, steps: range, bad: int = -1) -> None:
        for rank in range(RANKS):
            losses = [math.nan if rank == bad and step > 5 else 1.0 / (1 + step) for step in steps]
            rows = [
                WorkerStep(rank, step, 1.0 + step, 0.1, loss)
                for step, loss in zip(steps, losses, strict=True)
            ]
            self._logs[rank // 4].append(rows, [], 1.0)

    def findings(self) -> list[Finding]:
        assert self.nodes.feed()
        self.nodes.evaluate()
        return [finding for monitor in self.nodes.monitors for finding in monitor.findings]


@pytest.fixture
def job(tmp_path: Path) -> Job:
    return Job(tmp_path)


def test_a_healthy_job_has_no_finding(job: Job) -> None:
    job.train(range(20))
    for rank in range(RANKS):
        job.tell(rank, *(ReplicaDigests(step=s, digests={"fc": f"{s}"}) for s in (1, 2, 4)))
        job.tell(rank, *(WorkerPace(step=s, steps=50, step_s=1.0, own_s=0.5) for s in range(5)))
    assert job.findings() == []
    assert job.nodes.steps == 20


def test_a_loss_that_is_not_finite_is_dated_and_named(job: Job) -> None:
    job.train(range(20), bad=9)
    (found,) = job.findings()
    assert (found.code, found.workers, found.step, found.severity.value) == (
        *("NUM001", (9,)),
        *(6, "error"),
    )


def test_a_rank_with_other_weights_is_named_with_its_node(job: Job) -> None:
    job.train(range(5))
    for rank in range(RANKS):
        for step in (1, 2, 4):
            odd = "x" if rank == 6 and step > 1 else ""
            job.tell(rank, ReplicaDigests(step=step, digests={"fc": f"{step}{odd}"}))
    (found,) = job.findings()
    assert (found.code, found.workers, found.step) == ("DST951", (6,), 2)
    assert "rank 6 (node1)" in found.message


def test_a_slow_rank_is_named_although_another_one_stopped(job: Job) -> None:
    job.train(range(5))
    for rank in range(RANKS):
        for step in range(49, 49 + 50 * (1 if rank == 15 else 5), 50):
            own_s = 0.9 if rank == 3 else 0.2
            job.tell(rank, WorkerPace(step=step, steps=50, step_s=1.0, own_s=own_s))
    (found,) = job.findings()
    assert (found.code, found.workers, found.step) == ("DST952", (3,), 0)


def test_without_a_merged_log_there_is_nothing(tmp_path: Path) -> None:
    nodes = JoinedNodes(tmp_path, load_rules(Config()), Quiet())
    assert not nodes.feed()
    assert not nodes
