from __future__ import annotations

import gc
import math
import os
import select
import socket
import threading

import msgspec
import pytest
from tests.session.children import reading_children, wait_until

from mothtrap.core.facts.workers import WorkerStarted
from mothtrap.session.exit_order import ExitOrder

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


def test_the_order_is_seen_while_no_one_looks() -> None:
    exits = ExitOrder()
    with reading_children(3) as children:
        for rank, child in enumerate(children):
            exits.expect(started(rank, child.pid))
        for rank in (1, 0):
            children[rank].kill()
            wait_until(lambda rank=rank: rank not in exits._rank_of.values())
        assert [exits.place(rank) for rank in (1, 0, 2)] == [(0, 0), (1, 1), (0, math.inf)]
        assert exits.first_of((0, 1)) == 1
    exits.close()


def test_one_that_is_gone_before_it_is_watched_died_before_those_that_are_killed_for_it() -> None:
    exits = ExitOrder()
    with reading_children(2) as (killed, dead):
        exits.expect(started(0, killed.pid))
        dead.kill()
        dead.wait()
        exits.expect(started(1, dead.pid))
        killed.kill()
        wait_until(lambda: not exits._rank_of)
    assert exits.first_of((0, 1)) == 1
    exits.close()


def test_of_one_that_is_gone_after_another_was_seen_to_die_the_order_is_not_known() -> None:
    exits = ExitOrder()
    with reading_children(2) as (killed, dead):
        exits.expect(started(0, killed.pid))
        for child in (dead, killed):
            child.kill()
            child.wait()
        wait_until(lambda: not exits._rank_of)
        exits.expect(started(1, dead.pid))
    assert exits.first_of((0, 1)) is None
    exits.close()


def test_of_two_that_were_dead_before_either_was_watched_the_order_is_not_known() -> None:
    exits = ExitOrder()
    with reading_children(2) as children:
        for child in children:
            child.kill()
            os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)  # dead, and not reaped
            exits.expect(started(children.index(child), child.pid))
    assert exits.first_of((0, 1)) is None
    exits.close()


def test_a_number_that_another_process_has_by_now_is_that_of_one_that_is_gone() -> None:
    exits = ExitOrder()
    with reading_children(2) as (other, later):
        exits.expect(msgspec.structs.replace(started(1, other.pid), pid_ticks=1))
        exits.expect(started(0, later.pid))
        later.kill()
        wait_until(lambda: not exits._rank_of)
    assert exits.first_of((0, 1)) == 1
    exits.close()


def test_those_before_a_restart_are_forgotten() -> None:
    exits = ExitOrder()
    with reading_children(1) as (child,):
        exits.expect(started(0, child.pid))
    wait_until(lambda: not exits._rank_of)
    exits.forget()
    assert exits.place(0) == exits.place(1) == (0, math.inf)
    exits.close()


def test_workers_of_other_hosts_and_those_gone_are_not_watched() -> None:
    exits = ExitOrder()
    with reading_children(1) as (child,):
        exits.expect(started(0, child.pid, host="another"))
    exits.expect(started(0, child.pid))
    assert not exits._rank_of
    exits.close()


def test_where_the_system_refuses_no_one_is_watched(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuses(*_: object, **__: object) -> None:
        raise OSError(28, "no space left")

    handles = len(os.listdir("/proc/self/fd"))
    for owner, name in ((os, "pipe"), (threading.Thread, "start"), (select, "epoll")):
        exits = ExitOrder()
        with monkeypatch.context() as patched, reading_children(1) as (child,):
            patched.setattr(owner, name, refuses)
            exits.expect(started(0, child.pid))
            patched.undo()
            assert exits.place(0) == exits.place(1) == (0, math.inf)
            exits.forget()
            exits.close()
            exits.close()
    gc.collect()
    assert len(os.listdir("/proc/self/fd")) <= handles
