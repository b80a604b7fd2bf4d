"""Exceptions that end a training run, or a trial, on request."""

from __future__ import annotations


class StopTraining(SystemExit):
    """Raised between two steps to stop the training on request.

    It is not an `Exception`, so `except Exception` in a training loop does not catch it. As a
    `SystemExit`, it ends the process without a traceback, with the configured `stop_exit_code`.

    Attributes:
        step: number of finished train steps.
        reason: reason for the stop.
    """

    def __init__(self, code: int, step: int, reason: str) -> None:
        super().__init__(code)
        self.step, self.reason = step, reason


class TrialEnded(BaseException):
    """Carries the exception with which a library ends a pruned trial through the hooks.

    The library's exception may be an `Exception`, which hooks would otherwise suppress.
    """

    def __init__(self, error: Exception) -> None:
        super().__init__(str(error))
        self.error = error
