"""Table of the workers of a job, for the terminal and the page."""

from __future__ import annotations

import msgspec

from mothtrap.reader.worker_states import Workers, WorkerState

HEAD = ("rank", "node", "steps", "last step", "mothtrap", "step time", "state")
MOST_MISSING = 8
"""Ranks that the first line names; chosen by hand."""
_QUIET = ("trains", "ended")


class WorkerTable(msgspec.Struct, frozen=True, kw_only=True):
    """Table of a job's workers, as text.

    Attributes:
        coverage: number of known workers, and the missing workers.
        head: titles of the columns.
        rows: a row for each worker.
        left_out: number of workers without a row.
    """

    coverage: str
    head: tuple[str, ...] = HEAD
    rows: tuple[tuple[str, ...], ...]
    left_out: int = 0


def worker_table(workers: Workers, most: int | None = None) -> WorkerTable:
    """Return the table of a job.

    Args:
        workers: states of the workers.
        most: maximum number of rows, beginning with workers that neither train nor have ended.
            None: a row for each worker, by rank.
    """
    states = list(workers.states)
    if most is not None and len(states) > most:
        states.sort(key=lambda each: (each.state in _QUIET, each.rank))
    rows = states[:most]
    return WorkerTable(
        coverage=_coverage(workers),
        rows=tuple(_cells(each) for each in rows),
        left_out=len(states) - len(rows),
    )


def _coverage(workers: Workers) -> str:
    missing = workers.missing
    names = ", ".join(map(str, missing[:MOST_MISSING])) + " ..." * (len(missing) > MOST_MISSING)
    noun = "rank" if workers.expected == 1 else "ranks"
    lack = f"; missing: {names}" if missing else ""
    return f"{len(workers.states):,} of {workers.expected:,} {noun} seen{lack}"


def _cells(each: WorkerState) -> tuple[str, ...]:
    return (
        str(each.rank),
        each.host,
        f"{each.steps:,}",
        f"{each.age_s:,.0f} s ago",
        "" if each.own_s is None else f"{1000 * each.own_s:,.3g} ms",
        "" if each.step_s is None else f"{1000 * each.step_s:,.3g} ms",
        f"{each.state}: {each.detail}" if each.detail else each.state,
    )
