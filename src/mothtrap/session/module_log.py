"""`mothtrap.log` and `mothtrap.log_tensor`: for code that holds no watch."""

from __future__ import annotations

import sys
from typing import Any


def log(name: str, value: float, timestamp: float | None = None) -> None:
    """Record a number of the step in progress; does nothing outside a run.

    See `Watch.log` for the step and the timestamp.

    Inside a script started by `mothtrap run` it goes to that run, else to the latest
    `mothtrap.watch` that is open.
    """
    worker = _worker()
    if worker is not None:
        worker.logged.number(name, value, timestamp)


def log_tensor(name: str, value: Any) -> None:
    """Keep an array of the step in progress whole; does nothing outside a run.

    See `Watch.log_tensor` for what can be given, and `log` for where it goes.
    """
    worker = _worker()
    if worker is not None:
        worker.logged.tensor(name, value)


def _worker() -> Any:
    # Where that module was not loaded nothing is watched: nothing is to be loaded.
    startup: Any = sys.modules.get("mothtrap.session.startup")
    return startup.current_worker() if startup is not None else None
