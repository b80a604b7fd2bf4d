"""Does a step several times from one point: in copies of the process, each of which ends.

A copy made by fork goes on with the script from where it was made, and hands its result back
through a pipe. Its parallel regions are of one thread, since the others did not come along.
"""

from __future__ import annotations

import os
import select
import signal
import time
import warnings
from collections.abc import Callable
from contextlib import suppress

import torch

from mothtrap.core import jsonable
from mothtrap.core.replays import ReplayResult
from mothtrap.tracing.outcome import Outcome

TIMEOUT_S = 120.0
"""Longest time of one trial; chosen by hand, for steps that take seconds."""
MAX_TRIALS = 400
"""Trials of one replay; chosen by hand: enough to find a few rows among thousands."""


class GoOn(BaseException):
    """Raised in a copy of the process, to get from where it was made back to the script."""


class Trials:
    """Makes copies of this process.

    Args:
        outcome: is told in a copy where its result goes.
    """

    def __init__(self, outcome: Outcome) -> None:
        self._outcome = outcome
        self.count = 0

    @staticmethod
    def are_possible() -> bool:
        """Return whether a copy can do the step: accelerators and other ranks do not know of it."""
        in_use = any(
            getattr(torch, kind).is_initialized()
            for kind in ("cuda", "xpu")
            if hasattr(torch, kind)
        )
        groups = torch.distributed.is_available() and torch.distributed.is_initialized()
        return hasattr(os, "fork") and not in_use and not groups

    def run(self, prepare: Callable[[], None]) -> ReplayResult | None:
        """Do the step in a copy, and wait for what comes of it.

        Args:
            prepare: is called in the copy.

        Returns:
            None where nothing came of it.

        Raises:
            GoOn: in the copy.
        """
        self.count += 1
        if self.count > MAX_TRIALS:
            return None
        reading, writing = os.pipe()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of Python 3.12, about threads
            pid = os.fork()
        if pid == 0:
            os.close(reading)
            self._become_copy(writing)
            prepare()
            raise GoOn
        os.close(writing)
        try:
            data = _read(reading, TIMEOUT_S)
        finally:
            os.close(reading)
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
        return jsonable.decode(data, ReplayResult) if data else None

    def _become_copy(self, writing: int) -> None:
        self._outcome.pipe = writing
        nowhere = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):
            os.dup2(nowhere, stream)
        torch.set_num_threads(1)


def _read(descriptor: int, timeout_s: float) -> bytes:
    """Read until the other end is closed; empty when that takes too long."""
    parts: list[bytes] = []
    until = time.monotonic() + timeout_s
    while (left := until - time.monotonic()) > 0:
        ready, _, _ = select.select([descriptor], [], [], left)
        if not ready:
            break
        part = os.read(descriptor, 1 << 16)
        if not part:
            return b"".join(parts)
        parts.append(part)
    return b""
