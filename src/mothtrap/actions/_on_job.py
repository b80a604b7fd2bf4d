"""Base of the actions that ask something of the job, and send nothing."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

from mothtrap.core.actions import Job
from mothtrap.core.events import Event


class JobAction(ABC):
    """Asks something of the job; one that has ended is left alone."""

    __slots__ = ()

    label: ClassVar[str]
    target: ClassVar[str] = ""
    is_message: ClassVar[bool] = False

    def run(self, event: Event, job: Job, delivery: str) -> str:
        """Ask the job while it trains; return what was asked, "" for nothing."""
        del delivery
        return self.ask(event, job) if job.is_running else ""

    @abstractmethod
    def ask(self, event: Event, job: Job) -> str:
        """Ask the running job; return what was asked, "" for nothing."""
