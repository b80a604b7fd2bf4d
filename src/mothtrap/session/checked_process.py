"""Checks in the process of the script: begin, take the results, end the process."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, NoReturn

from mothtrap.capture.containment import say_on_stderr
from mothtrap.core.check_plan import read_plan
from mothtrap.core.facts.checks import CheckResult
from mothtrap.monitor.catalogue import load_checks
from mothtrap.session.protected_files import protected
from mothtrap.tracing.handle import AdapterSpec

if TYPE_CHECKING:
    from mothtrap.session.worker import Worker

SPARE_SHARE, SPARE_S = 0.1, 5.0
"""Share of the budget, or seconds if they are more, in which the process must have ended after the
budget was used up; chosen by hand."""


def begin_check(adapter: AdapterSpec, worker: Worker, close: Callable[[Worker], object]) -> None:
    """Let an adapter check the script of this process.

    Args:
        adapter: of the framework that was imported; one that cannot check is only watched.
        worker: records the run.
        close: closes the worker.
    """
    plan = read_plan(os.environ)
    if plan is None:
        return
    left = plan.budget_s - (time.time() - plan.began_s)
    _end_by_force(max(0.0, left) + max(SPARE_S, SPARE_SHARE * plan.budget_s))
    if adapter.check is None:
        _end_after(left, lambda: _finish(worker, (), "", close))
        return
    checks = load_checks(worker.config)
    adapter.check(
        plan,
        checks,
        lambda results, late: _finish(worker, results, late, close),
        worker.leave,
        worker.adapters.abandon,
        protected(),
    )


def _end_by_force(seconds: float) -> None:
    """End the process after some time, also where its main thread hangs."""

    def end() -> None:
        say_on_stderr("mothtrap: the check did not end in time, and was stopped")
        os._exit(1)

    timer = threading.Timer(seconds, end)
    timer.daemon = True
    timer.start()


def _end_after(seconds: float, end: Callable[[], object]) -> None:
    """Interrupt a script of a framework that has no checks, unless another one has them."""
    with suppress(ValueError):  # not in the main thread
        if signal.getsignal(signal.SIGALRM) == signal.SIG_DFL:
            signal.signal(signal.SIGALRM, lambda *_: end())
            signal.setitimer(signal.ITIMER_REAL, max(0.1, seconds))


def _finish(
    worker: Worker,
    results: Sequence[CheckResult],
    late: str,
    close: Callable[[Worker], object],
) -> NoReturn:
    """Record the results and end the process: nothing of the script runs any more.

    Args:
        worker: records the run.
        results: of the checks.
        late: why the time ended before the first step; empty if it did not.
        close: closes the worker.
    """
    if late:
        worker.recorder.notes.never_stepped(late)
    for result in results:
        worker.recorder.notes.observe(result)
    close(worker)
    if worker.path is None and results:  # no step was made, so that there is no run to tell it
        say_on_stderr(f"mothtrap: nothing was checked: {results[0].reason}")
    for (
        child
    ) in multiprocessing.active_children():  # workers of loaders: they use the scratch folder
        child.terminate()
        child.join(1.0)
    with suppress(OSError, ValueError, AttributeError):
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(int(getattr(sys, "last_value", None) is not None))  # 1: an exception ended the script
