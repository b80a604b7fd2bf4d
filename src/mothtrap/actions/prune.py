"""End a trial of Optuna or Ray Tune that is not worth going on with."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from mothtrap.actions._on_job import JobAction
from mothtrap.core.actions import Action, Job
from mothtrap.core.errors import ConfigError
from mothtrap.core.events import Event

LIBRARIES = ("optuna", "ray")


@dataclass(frozen=True, slots=True)
class Prune(JobAction):
    """Asks the job to end its trial; the process continues."""

    library: Literal["optuna", "ray"]
    label = "prune"

    def ask(self, event: Event, job: Job) -> str:
        """Ask the job to prune the trial."""
        asked = job.stop(event.text, self.library)
        return f"asked the job to prune its trial of {self.library}" if asked else ""


def make(settings: object, where: str) -> Sequence[Action]:
    """Create the action; the default library is the one loaded in this process."""
    loaded = [name for name in LIBRARIES if name in sys.modules]
    library = settings if settings is not None else (loaded or ["optuna"])[0]
    if library == "optuna":
        return (Prune("optuna"),)
    if library == "ray":
        return (Prune("ray"),)
    raise ConfigError(f"{where}: prune must be one of: {', '.join(LIBRARIES)}")
