"""Forked copies of this process, which continue from the same point and report through a pipe.

Parallel regions of a copy have one thread, since only the forking thread is copied.
"""

from __future__ import annotations

import os
import select
import signal
import time
import warnings
from contextlib import suppress

import torch


class GoOn(BaseException):
    """Raised in a copy of the process to return control to the script."""


def why_impossible() -> str:
    """Return why this process cannot be copied, such as accelerators or other ranks.

    Empty if it can.
    """
    if not hasattr(os, "fork"):
        return "this system cannot copy a process"
    for kind in ("cuda", "xpu"):
        if hasattr(torch, kind) and getattr(torch, kind).is_initialized():
            return f"a process that uses {kind.upper()} cannot be copied"
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        return "a process of a distributed job cannot be copied"
    return ""


def copy_process(*, leads_group: bool = False) -> tuple[int, int]:
    """Fork this process.

    Args:
        leads_group: the copy leads its own process group, so that it can be ended together with its
            own copies.

    Returns:
        In this process, the pid of the copy and the end of the pipe to read from; in the copy, 0
        and the end to write to.
    """
    reading, writing = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Python 3.12 warns about threads
        pid = os.fork()
    if pid:
        os.close(writing)
        return pid, reading
    os.close(reading)
    if leads_group:
        os.setpgid(0, 0)
    nowhere = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nowhere, stream)
    torch.set_num_threads(1)
    return 0, writing


def result_of(
    pid: int, reading: int, timeout_s: float, *, group: bool = False
) -> tuple[bytes, bool]:
    """Read the output of a copy until it closes its pipe, then end it.

    Args:
        pid: pid of the copy.
        reading: end of its pipe, which is closed.
        timeout_s: maximum time to wait.
        group: also end the process group of the copy.

    Returns:
        The output, and whether the copy finished in time.
    """
    try:
        return _read(reading, timeout_s)
    finally:
        os.close(reading)
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(pid, signal.SIGKILL) if group else os.kill(pid, signal.SIGKILL)
        with suppress(ChildProcessError):
            os.waitpid(pid, 0)


def _read(descriptor: int, timeout_s: float) -> tuple[bytes, bool]:
    parts: list[bytes] = []
    until = time.monotonic() + timeout_s
    while (left := until - time.monotonic()) > 0:
        ready, _, _ = select.select([descriptor], [], [], left)
        if not ready:
            break
        part = os.read(descriptor, 1 << 16)
        if not part:
            return b"".join(parts), True
        parts.append(part)
    return b"".join(parts), False
