"""Checks in the process of the script: start them, record the results, and end the process."""

from __future__ import annotations

import atexit
import importlib
import multiprocessing
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import msgspec

from mothtrap.capture.containment import say_on_stderr
from mothtrap.checks.fitted_tables import TablesSeen
from mothtrap.checks.parts import chosen
from mothtrap.core.check_plan import ASKED, read_plan
from mothtrap.core.facts.checks import CheckResult
from mothtrap.core.jsonable import encode
from mothtrap.monitor.catalogue import load_checks
from mothtrap.session.protected_files import protected
from mothtrap.store import layout
from mothtrap.tracing.handle import AdapterSpec

if TYPE_CHECKING:
    from mothtrap.checks.check import Check
    from mothtrap.core.check_plan import CheckPlan
    from mothtrap.session.worker import Worker

CLOSING_SHARE = 0.05
"""Share of the budget for storing and printing the results; chosen by hand."""
TABLES_SHARE = 0.5
"""Share of the budget after which a script that fits models in one call is interrupted; chosen by
hand.
"""

SPARE_SHARE, SPARE_S = 0.1, 5.0
"""Extra time, as a share of the budget or in seconds if that is more, after which the process is
forced to end; chosen by hand.
"""


class _Tables(TablesSeen):
    """Tables of this process.

    Attributes:
        adapters: frameworks that report them.
        make: function that runs the checks.
    """

    def __init__(self) -> None:
        super().__init__()
        self.adapters: list[str] = []
        self.make: Callable[[], list[CheckResult]] = list


_tables = _Tables()


def begin_check(adapter: AdapterSpec, worker: Worker, close: Callable[[Worker], object]) -> None:
    """Let an adapter check the script of this process.

    Args:
        adapter: adapter of the imported framework; an adapter that cannot check only watches.
        worker: records the run.
        close: closes the worker.
    """
    plan = read_plan(os.environ)
    if plan is None:
        return
    # scikit-learn imports them, and Python refuses to import them once the script has ended.
    for module in ("concurrent.futures.thread", "concurrent.futures.process"):
        importlib.import_module(module)
    left = plan.budget_s - (time.time() - plan.began_s)
    _end_by_force(max(0.0, left) + max(SPARE_S, SPARE_SHARE * plan.budget_s))
    checks = chosen(
        load_checks(worker.config),
        plan.part,
        resumes=bool(plan.resume_command),
        contract=plan.learns or bool(worker.config.invariants),
        asks=plan.asks > 0,
    )
    if adapter.checks.tables is not None:
        _collect_tables(adapter, plan, checks, worker, close)
    if adapter.checks.run is None:
        _end_after(left, lambda: _finish(worker, (), "", close))
        return
    adapter.checks.run(
        plan,
        checks,
        lambda results, late: _finish(worker, results, late, close),
        worker.leave,
        worker.adapters.abandon,
        protected(),
    )


def begin_trial(adapter: AdapterSpec) -> bool:
    """Let an adapter run one trial in a script that was restarted for it, without a record.

    Returns:
        Whether this process was started by a check.
    """
    plan = read_plan(os.environ)
    if plan is None or not plan.is_restart:
        return False
    if adapter.checks.trial is not None:
        _end_by_force(plan.budget_s - (time.time() - plan.began_s))
        adapter.checks.trial(plan, protected())
    return True


def _collect_tables(
    adapter: AdapterSpec,
    plan: CheckPlan,
    checks: Sequence[Check],
    worker: Worker,
    close: Callable[[Worker], object],
) -> None:
    """Collect the tables that an adapter reports, for data checks at the end of the script."""
    assert adapter.checks.tables is not None
    adapter.checks.tables(_tables.take)
    _tables.adapters.append(adapter.framework)
    if len(_tables.adapters) > 1:
        return

    def results() -> list[CheckResult]:
        left = plan.budget_s * (1 - CLOSING_SHARE) - (time.time() - plan.began_s)
        return _tables.results(checks, max(left, 1.0), asks=plan.asks)

    _tables.make = results
    pid = os.getpid()
    atexit.register(
        lambda: _finish(worker, (), "", close) if os.getpid() == pid and _tables.has_fit else None
    )
    left = plan.budget_s * TABLES_SHARE - (time.time() - plan.began_s)
    _end_after(left, lambda: _finish(worker, (), "", close))


def _end_by_force(seconds: float) -> None:
    """End the process after some time, even if its main thread hangs."""

    def end() -> None:
        say_on_stderr("mothtrap: the check did not end in time, and was stopped")
        os._exit(1)

    timer = threading.Timer(seconds, end)
    timer.daemon = True
    timer.start()


def _end_after(seconds: float, end: Callable[[], object]) -> None:
    """Interrupt the script of a framework without checks, unless another framework has some."""
    with suppress(ValueError):  # not on the main thread
        if signal.getsignal(signal.SIGALRM) == signal.SIG_DFL:
            signal.signal(signal.SIGALRM, lambda *_: end())
            signal.setitimer(signal.ITIMER_REAL, max(0.1, seconds))


def _without_samples(result: CheckResult) -> CheckResult:
    """Pass samples for a person to the command, so that they are not stored in the run."""
    plan = read_plan(os.environ)
    if plan is not None and result.asked:
        (Path(plan.scratch) / ASKED).write_bytes(encode(result.asked[0]))
    return msgspec.structs.replace(result, asked=())


def _finish(
    worker: Worker,
    results: Sequence[CheckResult],
    late: str,
    close: Callable[[Worker], object],
) -> NoReturn:
    """Record the results and end the process; no further code of the script runs.

    Args:
        worker: records the run.
        results: results of the checks.
        late: reason why time ended before the first step; empty if it did not.
        close: closes the worker.
    """
    if _tables.has_fit and not any(result.state == "done" for result in results):
        worker.adapters.abandon()  # models fitted by checks are not part of the script
        results, late = _tables.make(), ""
        if worker.path is None:
            worker.job.make_step(_tables.adapters[0], "fit", skipped=False)
    if late:
        worker.recorder.notes.never_stepped(late)
    for result in map(_without_samples, results):
        worker.recorder.notes.observe(result)
    close(worker)
    alone = not layout.workers(Path(os.environ["MOTHTRAP_RUN_DIR"]))
    if worker.path is None and results and alone:  # without a step, there is no run
        say_on_stderr(f"mothtrap: nothing was checked: {results[0].reason}")
    for (
        child
    ) in multiprocessing.active_children():  # worker processes of loaders use the scratch folder
        child.terminate()
        child.join(1.0)
    with suppress(OSError, ValueError, AttributeError):
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(int(getattr(sys, "last_value", None) is not None))  # 1: an exception ended the script
