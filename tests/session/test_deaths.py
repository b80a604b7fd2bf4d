from __future__ import annotations

import gc
import os
import select
import socket
import threading

import pytest
from tests.session.children import reading_children, wait_until

from mothtrap.core.facts.workers import WorkerStarted
from mothtrap.session.deaths import Deaths

pytestmark = pytest.mark.skipif(
    not hasattr(os, "pidfd_open"),
    reason="only Linux tells in which order other processes end",
)


def started(rank: int, pid: int, host: str = "") -> WorkerStarted:
    return WorkerStarted(
        step=0,
        rank=rank,
        world_size=2,
        pid=pid,
        host=host or socket.gethostname(),
        framework="torch",
        versions={},
    )


def test_the_order_is_seen_while_nobody_looks() -> None:
    deaths = Deaths()
    with reading_children(3) as children:
        for rank, child in enumerate(children):
            deaths.expect(started(rank, child.pid))
        for rank in (1, 0):
            children[rank].kill()
            wait_until(lambda rank=rank: rank not in deaths._rank_of.values())
        assert [deaths.order(rank) for rank in (1, 0, 2)] == [0, 1, 2]
    deaths.close()


def test_those_before_a_restart_are_forgotten() -> None:
    deaths = Deaths()
    with reading_children(1) as (child,):
        deaths.expect(started(0, child.pid))
    wait_until(lambda: not deaths._rank_of)
    deaths.forget()
    assert deaths.order(0) == deaths.order(1) == 0
    deaths.close()


def test_workers_of_other_hosts_and_those_gone_are_not_watched() -> None:
    deaths = Deaths()
    with reading_children(1) as (child,):
        deaths.expect(started(0, child.pid, host="another"))
    deaths.expect(started(0, child.pid))
    assert not deaths._rank_of
    deaths.close()


def test_where_the_system_refuses_nobody_is_watched(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuses(*_: object, **__: object) -> None:
        raise OSError(28, "no space left")

    handles = len(os.listdir("/proc/self/fd"))
    for owner, name in ((os, "pipe"), (threading.Thread, "start"), (select, "epoll")):
        deaths = Deaths()
        with monkeypatch.context() as patched, reading_children(1) as (child,):
            patched.setattr(owner, name, refuses)
            deaths.expect(started(0, child.pid))
            patched.undo()
            assert deaths.order(0) == deaths.order(1) == 0
            deaths.forget()
            deaths.close()
            deaths.close()
    gc.collect()
    assert len(os.listdir("/proc/self/fd")) <= handles
