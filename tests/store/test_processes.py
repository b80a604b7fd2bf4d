from __future__ import annotations

import os
import subprocess
import sys

import pytest
from tests.reader.runs import DEAD_PID

from mothtrap.store.processes import start_ticks


@pytest.mark.skipif(not os.path.exists("/proc/self/stat"), reason="this system has no /proc")
def test_a_process_is_told_from_a_later_one() -> None:
    assert start_ticks(os.getpid()) == start_ticks(os.getpid()) > 0
    later = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    assert start_ticks(later.pid) > start_ticks(os.getpid())
    later.communicate(b"\n")
    assert start_ticks(later.pid) == 0


def test_nobody_has_no_start() -> None:
    assert start_ticks(DEAD_PID) == 0
