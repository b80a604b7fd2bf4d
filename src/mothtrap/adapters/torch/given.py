"""Values that users hand over."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from mothtrap.capture.logged import log_number
from mothtrap.core.error_texts import in_one_line

if TYPE_CHECKING:
    from mothtrap.adapters.torch.job import Job


class GivenValues:
    """Takes them; what is no number is left out, and told once.

    Args:
        job: whose step they belong to.
        take_loss: takes a loss.
    """

    def __init__(self, job: Job, take_loss: Callable[[Any], None]) -> None:
        self._job, self._take_loss = job, take_loss

    def take(self, loss: Any, scalars: Mapping[str, Any]) -> None:
        """Take a loss, if any, and numbers by name."""
        for name, value in scalars.items():
            self._try(
                f"values of {name}", value, functools.partial(log_number, self._job.recorder, name)
            )
        if loss is not None:
            self._try("losses given to step()", loss, self._take_loss)

    def _try(self, what: str, value: Any, take: Callable[[Any], None]) -> None:
        try:
            take(value)
        except Exception as err:  # whatever an object of the user's raises
            reason = f"a {type(value).__name__} is no number ({in_one_line(err)})"
            self._job.recorder.blind(self._job.grouper.step, what, reason)
