"""Take a snapshot of the next step, which `mothtrap replay` can replay."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mothtrap.actions._on_job import JobAction
from mothtrap.core.actions import Action, Job
from mothtrap.core.errors import ConfigError
from mothtrap.core.events import Event


@dataclass(frozen=True, slots=True)
class Snapshot(JobAction):
    """Requests a snapshot from the job."""

    label = "snapshot"

    def ask(self, event: Event, job: Job) -> str:
        """Request a snapshot of the next step."""
        del event
        job.snapshot()
        return "asked the job for a snapshot of its next step"


def make(settings: object, where: str) -> Sequence[Action]:
    """Create the action; `snapshots` and `snapshot_mb` limit the stored snapshots."""
    if settings is not None:
        raise ConfigError(f"{where}: snapshot has no settings here; see snapshots and snapshot_mb")
    return (Snapshot(),)
