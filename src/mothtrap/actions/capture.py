"""Capture more from the next step on, for a number of steps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mothtrap.actions._on_job import JobAction
from mothtrap.core.actions import Action, Job, settings_of
from mothtrap.core.collections import Collection, complaint
from mothtrap.core.errors import ConfigError
from mothtrap.core.events import Event
from mothtrap.core.values import to_struct

FOR_STEPS = 100
"""Steps for which more is captured where the configuration gives no number; chosen by hand."""


@dataclass(frozen=True, slots=True)
class Capture(JobAction):
    """Asks the job to capture a collection; `for_steps` of each of its modes."""

    collection: Collection
    for_steps: int
    label = "capture"

    def ask(self, event: Event, job: Job) -> str:
        """Request the collection."""
        code = event.finding.code if event.finding is not None else event.kind
        job.capture({f"on {code}": self.collection}, self.for_steps)
        return f"asked the job to capture more for {self.for_steps} steps"


def make(settings: object, where: str) -> Sequence[Action]:
    """Return the action.

    Args:
        settings: tensor patterns, or a collection table with `for_steps`.
        where: source of the settings.
    """
    values = dict(settings_of(settings, "capture", "tensors", where))
    if isinstance(values.get("tensors"), str):
        values["tensors"] = (values["tensors"],)
    for_steps = values.pop("for_steps", FOR_STEPS)
    if not isinstance(for_steps, int) or isinstance(for_steps, bool) or for_steps < 1:
        raise ConfigError(f"{where}: capture.for_steps must be 1 step or more, not {for_steps!r}")
    collection = to_struct(values, Collection, f"{where}: capture")
    found = complaint("capture", collection)
    if found:
        raise ConfigError(f"{where}: capture.{found}")
    return (Capture(collection, for_steps),)
