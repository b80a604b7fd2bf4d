"""Processes that end when a test decides."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def reading_children(count: int) -> Iterator[list[subprocess.Popen[bytes]]]:
    """Start processes that wait for input; they are dead at the end."""
    command = [sys.executable, "-c", "import sys; sys.stdin.read()"]
    children = [subprocess.Popen(command, stdin=subprocess.PIPE) for _ in range(count)]
    try:
        yield children
    finally:
        for child in children:
            child.kill()
            child.communicate()


def wait_until(holds: Callable[[], bool], timeout_s: float = 60) -> None:
    deadline_s = time.monotonic() + timeout_s
    while not holds():
        assert time.monotonic() < deadline_s, "waited in vain"
        time.sleep(0.001)
