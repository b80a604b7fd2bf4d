"""The exception that ends a training on request."""

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
