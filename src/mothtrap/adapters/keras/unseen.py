"""The handle of Keras on a backend that is not observed."""

from __future__ import annotations

from mothtrap.core.adapters import Job
from mothtrap.tracing.handle import BaseHandle


class UnseenHandle(BaseHandle):
    """Says why nothing is seen, and sees nothing.

    Args:
        job: gets the reason.
        why: nothing is seen.
    """

    def __init__(self, job: Job, why: str) -> None:
        super().__init__(job)
        job.never_stepped(why)
