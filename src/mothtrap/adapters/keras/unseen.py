"""The handle of Keras on a backend that is not observed."""

from __future__ import annotations

from mothtrap.core.adapters import Given, Job, SnapshotTaker, Surroundings
from mothtrap.core.options import WITHOUT_SNAPSHOTS
from mothtrap.tracing.adapter_job import traced


class UnseenHandle:
    """Says why nothing is seen, and sees nothing.

    Args:
        job: that is told.
        why: nothing is seen.
    """

    honors = WITHOUT_SNAPSHOTS

    def __init__(self, job: Job, why: str) -> None:
        self._job = job
        traced(job).recorder.notes.never_stepped(why)

    @property
    def snapshots(self) -> SnapshotTaker | None:
        """No snapshots are taken of this framework."""
        return None

    def step(self, given: Given) -> None:
        """Add numbers of the user's to a step that another framework makes."""
        for name, value in given.numbers.items():
            self._job.number(name, value)

    def surroundings(self) -> Surroundings | None:
        """Return None: nothing is known."""
        return None

    def stop(self, _: str) -> bool:
        """Return False: no loop is known."""
        return False

    def detach(self) -> None:
        """Do nothing: nothing was replaced."""

    def abandon(self) -> None:
        """Do nothing: nothing was replaced."""
