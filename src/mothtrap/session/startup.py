"""Start the observation of this process; called right after a framework was imported."""

from __future__ import annotations

import atexit
import functools
import os
import socket
import sys
import time
from contextlib import suppress
from pathlib import Path

from mothtrap.capture.containment import say_on_stderr
from mothtrap.core.check_plan import is_checked
from mothtrap.core.config import Config, inherited_config
from mothtrap.core.errors import DamagedDataError
from mothtrap.core.replays import PLAN_VARIABLE, read_plan
from mothtrap.session.adapters import load
from mothtrap.session.closing_descriptors import keep_ours_open
from mothtrap.session.record import parsed
from mothtrap.session.resuming import Resumption, open_attempt, own_attempt
from mothtrap.session.triggers import framework_of, is_too_early
from mothtrap.session.worker import Worker
from mothtrap.store import layout
from mothtrap.tracing.handle import AdapterSpec

_process: list[Worker] = []
"""The worker of this process, once `attach` was called; a process has only one."""

_begun: set[str] = set()
"""Frameworks whose adapters are attached, or about to be."""

_loggers: list[AdapterSpec] = []
"""Adapters of loggers. They are loaded only after a training framework has been imported."""

_kept: dict[Worker, None] = {}
"""Workers that are not closed yet, in the order in which they began."""


def attach(framework: str, began_s: float | None = None) -> None:
    """Install the hooks of a framework in a process that `mothtrap run` started.

    All frameworks that a process imports take part in one job. In a process that `mothtrap replay`
    started, a snapshot is replayed instead, and nothing is recorded.

    Args:
        framework: framework that was just imported.
        began_s: time at which its mothtrap imports began, by `time.perf_counter`.
    """
    for parser in parsed.PARSERS:
        parsed.install(parser)  # also if a parser was imported before any module of mothtrap
    name = framework_of(framework)
    if name in _begun or is_too_early(framework):
        return  # started by another import, possibly one that the adapter itself makes
    _begun.add(name)
    try:
        _attach(name)
    except BaseException:
        _begun.discard(name)  # the module may be imported again
        raise
    if _process and began_s is not None:
        _process[0].start_s += time.perf_counter() - began_s


def saved(collection_s: float) -> None:
    """Record how many seconds of garbage collection were saved in this process."""
    if _process:
        _process[0].saved_s += collection_s


def _attach(framework: str) -> None:
    adapter = load(framework)
    if os.environ.get(PLAN_VARIABLE):
        plan = read_plan(os.environ)
        if adapter.replay and plan.framework in ("", adapter.framework, adapter.refines):
            adapter.replay(plan)
        return
    if is_checked(os.environ) and not _process and _makes_trial(adapter):
        return
    if _process and _process[0].adapters.abandoned:
        return  # a check imports the framework for its own models
    if not _process:
        if adapter.steps == "none":
            _loggers.append(adapter)
            return
        config = inherited_config() or Config()
        if config.workers == "rank0" and adapter.environment().rank:
            return
        _process.append(_begin(adapter, config))
    _process[0].attach(adapter)
    if is_checked(os.environ):
        from mothtrap.session.checked_process import begin_check

        begin_check(adapter, _process[0], finish)
    waiting, _loggers[:] = tuple(_loggers), []
    for logger in waiting:
        _process[0].attach(logger)


def _makes_trial(adapter: AdapterSpec) -> bool:
    """Return whether this process repeats a script for one trial of a check; begin the trial."""
    from mothtrap.session.checked_process import begin_trial

    return begin_trial(adapter)


def _begin(adapter: AdapterSpec, config: Config) -> Worker:
    opened = Path(os.environ["MOTHTRAP_RUN_DIR"])
    own = own_attempt(opened, os.environ)
    keep_ours_open(opened.parent)
    worker = Worker(
        lambda: open_attempt(opened, own),
        config,
        adapter.arrays,
        say_on_stderr,
        launched=True,
        is_job=_is_started_by_the_launcher(opened),
        is_compared=lambda: True,
    )
    if int(own.name) > layout.FIRST_ATTEMPT:
        worker.job.resumption = Resumption(opened, own, lambda: worker.adapters.environment().rank)
    keep(worker)
    return worker


def _is_started_by_the_launcher(attempt: Path) -> bool:
    try:
        info = layout.read_info(attempt)
    except (DamagedDataError, OSError):
        return False
    return info is not None and info.pid == os.getppid() and info.host == socket.gethostname()


def process_worker() -> Worker | None:
    """Return the worker that `attach` created in this process."""
    return _process[0] if _process else None


def current_worker() -> Worker | None:
    """Return the worker of this process: from `attach`, or the latest open watch."""
    return _process[0] if _process else next(reversed(_kept), None)


def keep(worker: Worker) -> None:
    """Close the worker when the process ends, and handle forked children."""
    _kept[worker] = None
    _listen()


def finish(worker: Worker, error: BaseException | None = None) -> None:
    """Close a worker before the process ends, possibly with an error, and forget it."""
    worker.close(error)
    _kept.pop(worker, None)


@functools.cache
def _listen() -> None:
    """Observe forks and the end of this process, only once: fork hooks cannot be removed."""
    from multiprocessing import util  # importing it registers exit functions

    def close_with_multiprocessing(_: object = None) -> None:
        util.Finalize(None, _close_all, exitpriority=-100)

    os.register_at_fork(after_in_child=_forked)
    atexit.register(_close_all)
    # Children of multiprocessing (fork, forkserver) end by os._exit, which skips atexit;
    # each child forgets the finalizers of its parent.
    close_with_multiprocessing()
    util.register_after_fork(_close_all, close_with_multiprocessing)


def _forked() -> None:
    for worker in list(_kept):
        if not worker.forked():
            del _kept[worker]


def _close_all() -> None:
    for worker in list(_kept):
        finish(worker)
    _keep_interrupt()


def _keep_interrupt() -> None:
    """Let a process that Ctrl-C ended still end by SIGINT.

    CPython (3.8 to 3.13 at least) forgets an unhandled KeyboardInterrupt as soon as any source text
    is executed at exit, for instance when dataclasses are imported, and then exits with 1.
    Executing text that raises the exception again corrects this.
    """
    if isinstance(getattr(sys, "last_value", None), KeyboardInterrupt):
        with suppress(KeyboardInterrupt):
            exec("raise KeyboardInterrupt")
