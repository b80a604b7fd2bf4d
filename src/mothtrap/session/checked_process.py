"""Checks in the process of the script: begin, take the results, end the process."""

from __future__ import annotations

import os
import sys
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


def begin_check(adapter: AdapterSpec, worker: Worker, close: Callable[[Worker], object]) -> None:
    """Let an adapter check the script of this process.

    Args:
        adapter: of the framework that was imported; one that cannot check is only watched.
        worker: records the run.
        close: closes the worker.
    """
    plan = read_plan(os.environ)
    if plan is None or adapter.check is None:
        return
    checks = load_checks(worker.config)
    adapter.check(plan, checks, lambda results: _finish(worker, results, close), protected())


def _finish(
    worker: Worker, results: Sequence[CheckResult], close: Callable[[Worker], object]
) -> NoReturn:
    """Record the results and end the process: nothing of the script runs any more."""
    for result in results:
        worker.recorder.notes.observe(result)
    close(worker)
    if worker.path is None and results:  # no step was made, so that there is no run to tell it
        say_on_stderr(f"mothtrap: nothing was checked: {results[0].reason}")
    with suppress(OSError, ValueError, AttributeError):
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(0)
