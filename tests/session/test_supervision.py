from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.reader.runs import closing, info
from tests.session.children import reading_children, wait_until
from tests.store.records import record

from mothtrap.core.config import Config
from mothtrap.core.facts.replicas import ReplicaDigests
from mothtrap.core.facts.workers import WorkerStarted
from mothtrap.reader.run import open_run
from mothtrap.session import supervision
from mothtrap.session.supervision import MONITOR, Supervision, _Attempt
from mothtrap.store import layout, rolling
from mothtrap.store.sealing import is_sealed
from mothtrap.store.worker_log import WorkerLog


@pytest.fixture
def attempt(tmp_path: Path) -> Path:
    return layout.create_run(tmp_path / "job", info())


@contextmanager
def supervising(attempt: Path) -> Iterator[Supervision]:
    supervised = Supervision(attempt, Config())
    supervised.begin()
    try:
        yield supervised
    finally:
        supervised.close()


def worker(
    attempt: Path,
    rank: int,
    digest: str = "same",
    pid: int = 1,
    *,
    end: bool = True,
    steps: int = 2,
) -> None:
    started = WorkerStarted(
        step=0,
        rank=rank,
        world_size=2,
        pid=pid,
        host=socket.gethostname(),
        framework="torch",
        versions={},
    )
    log = WorkerLog(layout.claim_worker(attempt, rank)[1])
    log.append([record(0, observations=(started,))])
    log.append([record(1, observations=(ReplicaDigests(step=1, digests={"fc": digest}),))])
    log.append([record(step) for step in range(2, steps)])
    if end:
        log.append([closing(2)])
    log.close()


def test_workers_that_differ_are_told_and_kept(
    attempt: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with supervising(attempt) as supervised:
        worker(attempt, 0)
        worker(attempt, 1, "other")
    run = open_run(attempt.parent)
    (found,) = run.findings
    assert (found.code, found.workers, found.layers) == ("DST951", (1,), ("fc",))
    assert supervised.lost == ()
    assert capfd.readouterr().err.count("DST951 diverging ranks") == 1
    assert layout.monitors(attempt) == [MONITOR]


def test_what_was_found_is_sealed_while_the_job_goes_on(
    attempt: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sealed findings are sent: a reader of an object store sees them before the end."""
    monkeypatch.setattr(rolling.RollClock, "due", property(lambda clock: clock._every_s == 2.5))
    config = Config(runs_dir="s3://bucket/runs", upload_every_s=2.5)
    assert config.roll_s == 2.5
    worker(attempt, 0)
    worker(attempt, 1, "other")
    _Attempt(attempt, config).look(last=False)
    found = [*layout.monitor_folder(attempt, MONITOR).glob("findings-*")]
    assert found
    assert all(is_sealed(path) for path in found)


def test_a_job_of_one_worker_is_left_to_itself(attempt: Path) -> None:
    with supervising(attempt) as supervised:
        worker(attempt, 0, end=False)
    assert (supervised.lost, layout.monitors(attempt)) == ((), [])


def test_the_first_to_die_is_named_first(attempt: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if not hasattr(os, "pidfd_open"):
        pytest.skip("only Linux tells in which order other processes end")
    monkeypatch.setattr(supervision, "LOOK_EVERY_S", 0.01)
    with reading_children(3) as children:
        for rank, child in enumerate(children):
            worker(attempt, rank, pid=child.pid, end=rank == 1)
        with supervising(attempt) as supervised:
            wait_until(lambda: len(supervised._exits._rank_of) == 3)
            for left in (2, 1, 0):
                children[left].kill()
                wait_until(lambda left=left: len(supervised._exits._rank_of) == left)
    assert supervised.lost == (2, 0)
    assert supervised.order_seen


def test_of_those_found_dead_together_the_first_to_stop_is_named_first(attempt: Path) -> None:
    with supervising(attempt) as supervised:
        worker(attempt, 0, end=False, steps=9)
        worker(attempt, 1, end=False, steps=8)
    assert supervised.lost == (1, 0)
    assert not supervised.order_seen  # both are guessed


def test_the_latest_attempt_is_that_of_the_last_restart(attempt: Path) -> None:
    with supervising(attempt) as supervised:
        worker(attempt, 0, end=False)
        worker(attempt, 1, end=False)
        again = layout.create_attempt(attempt.parent, info(attempt=2))
        worker(again, 0)
        worker(again, 1, end=False)
    assert supervised.latest == again
    assert supervised.lost == (1,)


def test_what_fails_in_it_is_said_once_and_harms_no_one(
    attempt: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def fail(*_: object) -> list[int]:
        raise RuntimeError("no eyes")

    monkeypatch.setattr(supervision.layout, "workers", fail)
    with supervising(attempt):
        pass
    assert capfd.readouterr().err.count("supervision failed") == 1
