"""Base class of actions that send a request to the job, but no message."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

from mothtrap.core.actions import Job
from mothtrap.core.events import Event


class JobAction(ABC):
    """Base of actions that send a request to the job; does nothing after the job has ended."""

    __slots__ = ()

    label: ClassVar[str]
    target: ClassVar[str] = ""
    is_message: ClassVar[bool] = False

    def run(self, event: Event, job: Job, delivery: str) -> str:
        """Send the request if the job still trains; return a description of it, or ""."""
        del delivery
        return self.ask(event, job) if job.is_running else ""

    @abstractmethod
    def ask(self, event: Event, job: Job) -> str:
        """Send the request to the running job; return a description of it, or ""."""
