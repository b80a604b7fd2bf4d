"""End the training at a step that all workers agree on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mothtrap.core.actions import Action, Job
from mothtrap.core.errors import ConfigError
from mothtrap.core.events import Event


@dataclass(frozen=True, slots=True)
class Stop:
    """Asks the job to stop; `stop_exit_code` is its exit code then."""

    label: str = "stop"
    target: str = ""
    is_message: bool = False

    def run(self, event: Event, job: Job, delivery: str) -> str:
        """Ask the job to stop; one that has ended is left alone."""
        del delivery
        if not job.is_running:
            return ""
        return "asked the job to stop" if job.stop(event.text) else ""


def make(settings: object, where: str) -> Sequence[Action]:
    """Return the action; it has no settings."""
    if settings is not None:
        raise ConfigError(f"{where}: stop has no settings; the exit code is stop_exit_code")
    return (Stop(),)
