"""The exceptions that end a training, or a trial, on request."""

from __future__ import annotations


class StopTraining(SystemExit):
    """Ends the training at a step boundary, because it was asked to stop.

    It is no `Exception`, so that `except Exception` in a training loop does not catch it; as a
    `SystemExit` it ends the process quietly, with the exit code of the configuration.

    Attributes:
        step: train steps made.
        reason: why the training was stopped.
    """

    def __init__(self, code: int, step: int, reason: str) -> None:
        super().__init__(code)
        self.step, self.reason = step, reason


class TrialEnded(BaseException):
    """Carries the exception by which a library knows a pruned trial out of our hooks.

    That exception may be an `Exception`, which hooks keep from the training otherwise.
    """

    def __init__(self, error: Exception) -> None:
        super().__init__(str(error))
        self.error = error
