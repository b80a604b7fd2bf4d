"""The handle of a logger: numbers that a script gives to it are numbers of the step."""

from __future__ import annotations

from typing import Any

from mothtrap.core.adapters import Given, Job, SnapshotTaker, Surroundings
from mothtrap.core.options import WITHOUT_SNAPSHOTS
from mothtrap.tracing.adapter_job import traced
from mothtrap.tracing.replacements import Replacements


class LoggerHandle:
    """A logger at work; derive from it and replace functions in `install`.

    Args:
        job: takes what is logged.

    Attributes:
        numbers: takes those that are logged.
        replacements: puts functions in the place of others.
    """

    honors = WITHOUT_SNAPSHOTS

    def __init__(self, job: Job) -> None:
        self._job = traced(job)
        self.numbers = self._job.process.numbers
        self.replacements = Replacements(job.contain)
        try:
            self.install()
        except BaseException:
            self.replacements.undo()  # all or nothing
            raise

    def install(self) -> None:
        """Replace functions of the logger."""
        raise NotImplementedError

    @property
    def snapshots(self) -> SnapshotTaker | None:
        """Return None: nothing trains here."""
        return None

    def step(self, _: Given) -> None:
        """Do nothing: nothing trains here."""

    def surroundings(self) -> Surroundings | None:
        """Return None: no number depends on a logger."""
        return None

    def stop(self, _: str) -> bool:
        """Return False: there is no loop."""
        return False

    def detach(self) -> None:
        """Restore everything that was replaced."""
        self.replacements.undo()

    def abandon(self) -> None:
        """See nothing from here on, in a forked child."""
        self._job.live = False


def given(args: tuple[Any, ...], kwargs: dict[str, Any], *names: str) -> list[Any]:
    """Return the first arguments of a call by the names of its parameters; None of those absent."""
    return [args[i] if i < len(args) else kwargs.get(name) for i, name in enumerate(names)]
