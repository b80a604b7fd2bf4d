"""End of a job: as a sentence, and as a word."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

from mothtrap.core.facts.workers import WorkerEnded

if TYPE_CHECKING:
    from mothtrap.reader.run import Run

MAX_ERROR = 160
"""Characters of an exception that are told; chosen by hand: two lines of a terminal."""
MAX_WORKERS = 8
"""Workers that are named; chosen by hand."""


def how_it_ended(run: Run) -> str:
    """Say how a job ended that did not end well: `ended with exit code 7`."""
    return _ended(run) + _lost(run)


def ending_word(run: Run) -> str:
    """Say in few words how a job stands: `running`, `finished`, `interrupted`, `exit code 7`."""
    if run.state == "running":
        return "running"
    code = run.end.exit_code if run.end else None
    if _interrupted(run):
        return "interrupted"
    if code is not None and code < 0:
        return _signal(code)
    if run.stopped_at is not None:
        return "stopped"
    return f"exit code {code}" if code and run.state == "finished" else run.state


def _ending_place(run: Run) -> str:
    """The line of the user's own code at which an exception ended the script, if known."""
    ends = [end for end in run.observations(WorkerEnded) if end.exception]
    return f" at {ends[0].location}" if ends and ends[0].location else ""


def _lost(run: Run) -> str:
    """Say which worker was lost first in a job of several, or which ones where that is unknown."""
    if run.end is None or not run.end.lost:
        return ""
    lost = run.end.lost
    if len(lost) == 1 or run.end.order_seen:
        return f"; worker {lost[0]} was lost" + (" first" if len(lost) > 1 else "")
    named = ", ".join(map(str, sorted(lost)[:MAX_WORKERS])) + (" ..." * (len(lost) > MAX_WORKERS))
    return f"; workers {named} were lost"


def _first_line(error: str) -> str:
    """An exception without what follows its first line; long ones are cut."""
    line = (error.splitlines() or [""])[0].rstrip(". ")
    return line if len(line) <= MAX_ERROR else line[:MAX_ERROR] + "…"


def _ended(run: Run) -> str:
    code = run.end.exit_code if run.end else None
    exceptions = [end.exception for end in run.observations(WorkerEnded) if end.exception]
    after = f" after {run.steps:,} step{'' if run.steps == 1 else 's'}" if run.steps else ""
    if _interrupted(run):
        return f"was interrupted (Ctrl-C){after}"
    if code is not None and code < 0:
        return f"was killed by signal {_signal(code)}{after}"
    if run.stop_reason is not None:
        return f"was stopped before step {run.stopped_at}, as asked"
    if run.stopped_at is not None:
        return f"was stopped at step {run.stopped_at} as on_nonfinite asks"
    if exceptions:
        return f"ended with {_first_line(exceptions[0])}{_ending_place(run)}"
    if code:
        return f"ended with exit code {code}"
    return "stopped without closing its run"


def _interrupted(run: Run) -> bool:
    ends = [end.exception or "" for end in run.observations(WorkerEnded)]
    by_signal = run.end is not None and run.end.exit_code == -signal.SIGINT
    return by_signal or any(error.startswith("KeyboardInterrupt") for error in ends)


def _signal(code: int) -> str:
    """The name of the signal behind a negative exit code."""
    try:
        return signal.Signals(-code).name
    except ValueError:
        return str(-code)
