"""Watches this process: called once, right after a framework was imported."""

from __future__ import annotations

import atexit
import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

from mothtrap.capture.containment import say_on_stderr
from mothtrap.core import registry
from mothtrap.core.config import Config, inherited_config
from mothtrap.session.worker import Worker

_process: list[tuple[Worker, Any]] = []
"""The worker and tracer of this process, once `attach` was called: a process has one."""


def attach(framework: str) -> None:
    """Install the hooks of a framework in a process that `mothtrap run` started."""
    adapter: Any = registry.load("mothtrap.adapters", framework)
    folder = os.environ["MOTHTRAP_RUN_DIR"]
    config = inherited_config() or Config()
    worker = Worker(lambda: Path(folder), config, adapter, say_on_stderr)
    handle = adapter.attach_process(worker.recorder)
    worker.holds(handle)
    keep(worker, handle)
    _process.append((worker, handle.tracer))


def process_watch() -> tuple[Worker, Any] | None:
    """The worker and tracer that `attach` made in this process."""
    return _process[0] if _process else None


def keep(worker: Worker, handle: Any) -> None:
    """Close the worker when the process ends; switch it off in forked children."""

    def abandon() -> None:
        handle.tracer.live = False
        worker.abandon()

    def close() -> None:
        worker.close()
        _keep_interrupt()

    os.register_at_fork(after_in_child=abandon)
    atexit.register(close)


def _keep_interrupt() -> None:
    """Let a process that Ctrl-C ended still end by SIGINT.

    CPython (3.8 to 3.13 at least) forgets an unhandled KeyboardInterrupt as soon as any
    text is executed at exit, as imports of dataclasses do, and then exits with 1; text
    that raises it again sets that right.
    """
    if isinstance(getattr(sys, "last_value", None), KeyboardInterrupt):
        with suppress(KeyboardInterrupt):
            exec("raise KeyboardInterrupt")
