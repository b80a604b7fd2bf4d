"""Pool of processes on this machine."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Iterator
from concurrent.futures import Executor, ProcessPoolExecutor
from contextlib import contextmanager

from mothtrap.core.errors import ConfigError

PRELOADED = ["mothtrap.monitor.stored.unit"]
"""Modules that the process server imports once, so that workers do not have to."""


@contextmanager
def open_executor(address: str, workers: int | None) -> Iterator[Executor]:
    """Start a pool of processes.

    Processes are forked from a server without threads, never from this process, in which libraries
    may hold locks.
    """
    if address:
        raise ConfigError(f"the executor 'processes' has no address, but {address!r} was given")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(PRELOADED)
    with ProcessPoolExecutor(workers or _cores(), mp_context=context) as pool:
        yield pool


def _cores() -> int:
    """Return the number of cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):  # not on macOS and Windows
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
