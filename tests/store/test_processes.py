from __future__ import annotations

import os
import subprocess
import sys

import pytest
from tests.reader.runs import DEAD_PID

from mothtrap.store.processes import is_alive, start_ticks


@pytest.mark.skipif(not os.path.exists("/proc/self/stat"), reason="this system has no /proc")
def test_a_process_is_told_from_a_later_one() -> None:
    assert start_ticks(os.getpid()) == start_ticks(os.getpid()) > 0
    later = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    assert start_ticks(later.pid) > start_ticks(os.getpid())
    later.communicate(b"\n")
    assert start_ticks(later.pid) == 0


def test_no_one_has_no_start() -> None:
    assert start_ticks(DEAD_PID) == 0


def test_a_dead_process_that_no_one_waits_for_is_not_alive() -> None:
    ended = subprocess.Popen([sys.executable, "-c", "print()"], stdout=subprocess.PIPE)
    assert is_alive(os.getpid())
    assert ended.stdout is not None
    ended.stdout.read()  # it has ended and was not waited for
    os.waitid(os.P_PID, ended.pid, os.WEXITED | os.WNOWAIT)
    assert not is_alive(ended.pid)
    ended.communicate()
    assert not is_alive(ended.pid)
    assert not is_alive(DEAD_PID)
    assert not is_alive(-1)
