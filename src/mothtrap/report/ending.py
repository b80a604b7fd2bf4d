"""End of a job: as a sentence, and as a word."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

from mothtrap.core.facts.failures import ScriptFailed
from mothtrap.core.facts.workers import WorkerEnded

if TYPE_CHECKING:
    from mothtrap.reader.run import Run

MAX_ERROR = 160
"""Characters of an exception that are reported; chosen by hand: two lines of a terminal."""
MAX_WORKERS = 8
"""Ranks that are named; chosen by hand."""


def how_it_ended(run: Run, when: str = "") -> str:
    """Describe how a job failed: `ended with exit code 7`.

    Args:
        run: an opened run.
        when: words before the message of an exception, otherwise at the end.
    """
    return _ended(run, when) + _lost(run)


def ended_by_exception(run: Run) -> bool:
    """Return whether the job ended with its own exception, not a signal or Ctrl-C."""
    return _exception(run) is not None and _ended(run).startswith("ended with")


def traceback_of(run: Run) -> str:
    """Return the traceback of the exception that ended the job; empty without an exception."""
    ends = _raised(run)
    return ends[0].traceback if ends else ""


def ending_word(run: Run) -> str:
    """Return the state of a job in words: `running`, `finished`, `interrupted`, `exit code 7`."""
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


def _raised(run: Run) -> list[WorkerEnded]:
    """The ends of the ranks that an exception ended."""
    return [end for end in run.observations(WorkerEnded) if end.exception]


def _exception(run: Run) -> tuple[str, str] | None:
    """The exception that ended the script: its type with its message, and " at train.py:12"."""
    ends = _raised(run)
    if not ends:
        return None
    error, location = str(ends[0].exception), ends[0].location
    for seen in run.observations(ScriptFailed):
        if seen.error.partition(":")[0] == error.partition(":")[0]:
            error, location = seen.error, seen.location or location
            break
    return error, f" at {location}" if location else ""


def _lost(run: Run) -> str:
    """Return the rank that was lost first, or all lost ranks if the order is unknown."""
    if run.end is None or not run.end.lost:
        return ""
    lost = run.end.lost
    if len(lost) == 1 or run.end.order_seen:
        return f"; rank {lost[0]} was lost" + (" first" if len(lost) > 1 else "")
    named = ", ".join(map(str, sorted(lost)[:MAX_WORKERS])) + (" ..." * (len(lost) > MAX_WORKERS))
    return f"; ranks {named} were lost"


def _message(error: str) -> str:
    """The first line of an exception's message; long lines are truncated.

    If the first line ends with a colon, it is a heading. The last line without indentation is then
    added: TensorFlow writes it after "Graph execution error:" and a traceback.
    """
    first, *others = error.splitlines() or [""]
    line = first.rstrip(".: ")
    last = [other.strip() for other in others if other.strip() and not other[0].isspace()][-1:]
    if first.rstrip().endswith(":") and last:
        line = f"{line}: {last[0].rstrip('.: ')}"
    return line if len(line) <= MAX_ERROR else line[:MAX_ERROR] + "…"


def _ended(run: Run, when: str = "") -> str:
    code = run.end.exit_code if run.end else None
    exception = _exception(run)
    after = f" after {run.steps:,} step{'' if run.steps == 1 else 's'}" if run.steps else ""
    if _interrupted(run):
        return f"was interrupted (Ctrl-C){after}{when}"
    if code is not None and code < 0:
        return f"was killed by signal {_signal(code)}{after}{when}"
    if run.stop_reason is not None:
        return f"was stopped before step {run.stopped_at}, as requested"
    if run.stopped_at is not None:
        return f"was stopped at step {run.stopped_at} by on_nonfinite"
    if exception is not None:
        kind, _, text = exception[0].partition(":")
        message = _message(text.strip())
        told = f"{kind}{exception[1]}{when}"
        return f"ended with {told}: {message}" if message else f"ended with {told}"
    if code:
        return f"ended with exit code {code}{when}"
    return f"stopped without closing its run{when}"


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
