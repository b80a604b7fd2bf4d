"""Replay at the end of `mothtrap run --replay`: operation, line and rows of a bad step."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console

from mothtrap.capture.containment import say_on_stderr
from mothtrap.core.error_texts import in_one_line
from mothtrap.core.errors import MothtrapError, ReplayError
from mothtrap.report.replays import as_text
from mothtrap.report.style import Style
from mothtrap.session.replay import ReplayOptions, choose, replay
from mothtrap.session.replay_results import keep
from mothtrap.session.replay_start import Start
from mothtrap.snapshot.retention import is_onset


def replay_at_end(run: Path) -> None:
    """Replay the first failed step, then print and store the result.

    Prints nothing if no such step was kept. Ctrl-C skips the replay.

    Args:
        run: folder of a run that has ended.
    """
    try:
        step = _bad_step(run)
        if step is None:
            return
        with _progress(f"replaying step {step} in a second run of the script; Ctrl-C skips this"):
            found = replay(run, ReplayOptions(step=step), starting=_refuse_foreign)
        style = Style.of(sys.stderr)
        text = as_text(
            found.snapshot, found.results, run.name, warnings=found.warnings, style=style
        )
        say_on_stderr(f"\n{text}")
        keep(run, found)
    except KeyboardInterrupt:
        say_on_stderr(f"  replay skipped; later: mothtrap replay {run.name} --step {step}")
    except Exception as err:  # the job has ended
        say_on_stderr(f"mothtrap: cannot replay step {step} ({in_one_line(err)})")


def _refuse_foreign(start: Start) -> None:
    """Refuse a step recorded by another user, possible in a resumed run, without asking."""
    if start.foreign:
        raise ReplayError(
            f"the step was recorded on {start.foreign}; run `mothtrap replay`, which asks before "
            "it starts the script"
        )


def _bad_step(run: Path) -> int | None:
    try:
        chosen = choose(run, None)[0]
    except MothtrapError:  # the verdict explains why nothing was stored
        return None
    about = chosen.snapshot
    return chosen.step if about is not None and is_onset(about.reason) else None


@contextmanager
def _progress(text: str) -> Iterator[None]:
    """Show a line with a spinner during the replay; a plain line if stderr is not a terminal."""
    console = Console(stderr=True)
    if not console.is_terminal:
        say_on_stderr(f"mothtrap: {text}")
        yield
        return
    with console.status(f"mothtrap: {text}"):
        yield
