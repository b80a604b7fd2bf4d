"""Files for which a thread waits are found, and only these."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from mothtrap.tracing.jobs.blocked_files import BlockedFile, blocked_files

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="asks Linux what threads wait for")
DEADLINE_S = 30.0


def found_of(path: str, act: Callable[[], object]) -> list[BlockedFile]:
    """Return what is found about a file once a thread waits for it."""
    threading.Thread(target=act, daemon=True).start()
    until = time.monotonic() + DEADLINE_S
    while time.monotonic() < until:
        if found := [each for each in blocked_files() if each.path == path]:
            return found
        time.sleep(0.01)
    return []


def test_a_pipe_that_waits_for_a_writer_is_found(tmp_path: Path) -> None:
    path = str(tmp_path / "pipe")
    os.mkfifo(path)
    assert found_of(path, lambda: os.close(os.open(path, os.O_RDONLY))) == [
        BlockedFile(path, None, opens=True)
    ]
    os.close(os.open(path, os.O_WRONLY))


def test_a_pipe_that_waits_for_data_is_found(tmp_path: Path) -> None:
    path = str(tmp_path / "pipe")
    os.mkfifo(path)
    both = os.open(path, os.O_RDWR)
    assert found_of(path, lambda: os.read(both, 1)) == [BlockedFile(path, None, opens=False)]
    os.write(both, b"x")
