"""`mothtrap.log` and its like: for code that holds no watch."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
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


def log_params(params: Mapping[str, Any] | Any = None, /, **more: Any) -> None:
    """Record parameters; see `Watch.log_params`, and `log` for where they go."""
    _record().log_params(params, **more)


def log_text(name: str, text: str) -> None:
    """Record a text; see `Watch.log_text`, and `log` for where it goes."""
    _record().log_text(name, text)


def log_table(name: str, rows: Any, columns: Sequence[str] | None = None) -> None:
    """Record a table; see `Watch.log_table`, and `log` for where it goes."""
    _record().log_table(name, rows, columns)


def log_image(name: str, image: Any) -> None:
    """Record an image; see `Watch.log_image`, and `log` for where it goes."""
    _record().log_image(name, image)


def log_artifact(path: str | os.PathLike[str], name: str = "", *, keep: bool = False) -> None:
    """Record the digest of a file; see `Watch.log_artifact`, and `log` for where it goes."""
    _record().log_artifact(path, name, keep=keep)


def log_predictions(
    labels: Any, scores: Any, name: str = "predictions", classes: Sequence[str] = ()
) -> None:
    """Record predictions of a classifier; see `Watch.log_predictions`."""
    _record().log_predictions(labels, scores, name, classes)


def log_figure(name: str, figure: Any) -> None:
    """Record a figure; see `Watch.log_figure`, and `log` for where it goes."""
    _record().log_figure(name, figure)


def _record() -> Any:
    worker = _worker()
    if worker is None:
        return _Nothing()
    from mothtrap.session.record.logging import RecordLog

    return RecordLog(worker.record)


class _Nothing:
    """Takes what is logged outside of a run."""

    def __getattr__(self, _: str) -> Any:
        return lambda *_, **__: None


def _worker() -> Any:
    # Where that module was not loaded nothing is watched: nothing is to be loaded.
    startup: Any = sys.modules.get("mothtrap.session.startup")
    return startup.current_worker() if startup is not None else None
