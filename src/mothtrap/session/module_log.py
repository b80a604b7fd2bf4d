"""`mothtrap.log` and similar functions, for code without access to a `Watch`."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from typing import Any


def log(name: str, value: float, timestamp: float | None = None) -> None:
    """Record a number for the current step; does nothing outside a run.

    In a script started by `mothtrap run`, the number belongs to that run, otherwise to the latest
    open `mothtrap.watch`. Never raises. See `Watch.log` for the definition of the current step.

    Args:
        name: name of the scalar.
        value: a number.
        timestamp: Unix time of the measurement in seconds, if it should be stored.
    """
    worker = _worker()
    if worker is not None:
        worker.logged.number(name, value, timestamp)


def log_tensor(name: str, value: Any) -> None:
    """Record all values of an array for the current step; does nothing outside a run.

    Same as `Watch.log_tensor`, for the run that `log` writes to.
    """
    worker = _worker()
    if worker is not None:
        worker.logged.tensor(name, value)


def log_params(params: Mapping[str, Any] | Any = None, /, **more: Any) -> None:
    """Record parameters; same as `Watch.log_params`, for the run that `log` writes to."""
    _record().log_params(params, **more)


def log_text(name: str, text: str) -> None:
    """Record a text; same as `Watch.log_text`, for the run that `log` writes to."""
    _record().log_text(name, text)


def log_table(name: str, rows: Any, columns: Sequence[str] | None = None) -> None:
    """Record a table; same as `Watch.log_table`, for the run that `log` writes to."""
    _record().log_table(name, rows, columns)


def log_image(name: str, image: Any) -> None:
    """Record an image; same as `Watch.log_image`, for the run that `log` writes to."""
    _record().log_image(name, image)


def log_artifact(path: str | os.PathLike[str], name: str = "", *, keep: bool = False) -> None:
    """Record a file's SHA-256; same as `Watch.log_artifact`, for the run that `log` writes to."""
    _record().log_artifact(path, name, keep=keep)


def log_predictions(
    labels: Any, scores: Any, name: str = "predictions", classes: Sequence[str] = ()
) -> None:
    """Record a classifier's predictions; same as `Watch.log_predictions`, for the run of `log`."""
    _record().log_predictions(labels, scores, name, classes)


def log_figure(name: str, figure: Any) -> None:
    """Record a figure; same as `Watch.log_figure`, for the run that `log` writes to."""
    _record().log_figure(name, figure)


def _record() -> Any:
    worker = _worker()
    if worker is None:
        return _Nothing()
    from mothtrap.session.record.logging import RecordLog

    return RecordLog(worker.record)


class _Nothing:
    """Discards values that are logged outside of a run."""

    def __getattr__(self, _: str) -> Any:
        return lambda *_, **__: None


def _worker() -> Any:
    # If that module was not loaded, nothing is watched, so it is not loaded here.
    startup: Any = sys.modules.get("mothtrap.session.startup")
    return startup.current_worker() if startup is not None else None
