"""Reason why the exception that ended a run left no step to replay."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mothtrap.core.facts.snapshots import SnapshotKept
from mothtrap.core.facts.workers import WorkerEnded
from mothtrap.report.ending import how_it_ended
from mothtrap.report.failures import failures
from mothtrap.report.kept import EXCEPTION

if TYPE_CHECKING:
    from mothtrap.reader.run import Run

NO_STEP = ("KeyboardInterrupt", "SystemExit", "GeneratorExit")
"""Exceptions that end a script without a failure: no snapshot is taken of them."""


def why_unkept(run: Run, called: str) -> str | None:
    """Return why there is no snapshot of the step that ended with an exception.

    Args:
        run: an opened run.
        called: argument that finds the run in a command.

    Returns:
        The end of a sentence. None if no exception ended the run, if a snapshot exists, or if no
        snapshots are taken.
    """
    ends = [end.exception for end in run.observations(WorkerEnded) if end.exception]
    if not any(not end.startswith(NO_STEP) for end in ends) or _takes_none(run):
        return None
    told = [kept for kept in run.observations(SnapshotKept) if kept.reason == EXCEPTION]
    if told and not told[-1].error:
        return None
    ended = f"it {how_it_ended(run)}"
    if told:
        return f"{ended}; step {told[-1].step} could not be stored: {told[-1].error}"
    said = "".join(
        f"; `mothtrap show {called}` reports: {failure.sentence}" for failure in failures(run)[:1]
    )
    return (
        f"{ended}, before the next step had any inputs (in a loader, or between two steps), so "
        f"there is no step to replay{said}"
    )


def why_refused(run: Run) -> str | None:
    """Return why the first requested snapshot was not taken; None if all were taken."""
    refused = [kept for kept in run.observations(SnapshotKept) if kept.error]
    return f"step {refused[0].step} could not be stored: {refused[0].error}" if refused else None


def _takes_none(run: Run) -> bool:
    config = run.info.config if run.info is not None else {}
    off = (config.get("snapshots", 1), config.get("ring_mb", 1), config.get("capture", ""))
    return off[0] == 0 or off[1] == 0 or off[2] == "off"
