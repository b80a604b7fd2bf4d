"""End the training at a step that all workers agree on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mothtrap.actions._on_job import JobAction
from mothtrap.core.actions import Action, Job
from mothtrap.core.errors import ConfigError
from mothtrap.core.events import Event


@dataclass(frozen=True, slots=True)
class Stop(JobAction):
    """Asks the job to stop, with `stop_exit_code` as its exit code."""

    label = "stop"

    def ask(self, event: Event, job: Job) -> str:
        """Ask the job to stop."""
        return "asked the job to stop" if job.stop(event.text) else ""


def make(settings: object, where: str) -> Sequence[Action]:
    """Create the action; it has no settings."""
    if settings is not None:
        raise ConfigError(f"{where}: stop has no settings; the exit code is stop_exit_code")
    return (Stop(),)
