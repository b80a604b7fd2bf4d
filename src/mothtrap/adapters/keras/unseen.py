"""Handle for Keras on a backend that is not observed."""

from __future__ import annotations

from mothtrap.core.adapters import Job
from mothtrap.tracing.handle import BaseHandle


class UnseenHandle(BaseHandle):
    """Handle that observes nothing, and reports why.

    Args:
        job: receives the reason.
        why: reason why nothing is observed.
    """

    def __init__(self, job: Job, why: str) -> None:
        super().__init__(job)
        job.never_stepped(why)
