"""Recheck a bad step while the job runs: compare a replay with the run, bit for bit.

The script is restarted in a copy of its folder, with a low priority, and runs up to the step.
"""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

from mothtrap.core.error_texts import in_one_line
from mothtrap.core.errors import MothtrapError, ReplayError
from mothtrap.core.replays import ReplayResult
from mothtrap.report.replays import all_match
from mothtrap.session.folder_copy import command_in, copy_folder
from mothtrap.session.repeatability import NOT_DETERMINISTIC, REPEATABLE, TRANSIENT
from mothtrap.session.replay import Replayed, ReplayOptions, replay
from mothtrap.session.replay_results import keep
from mothtrap.session.replay_start import Start
from mothtrap.snapshot.format import Stored, stored
from mothtrap.snapshot.retention import is_onset

LOOK_EVERY_S = 2.0
"""Interval between searches for a bad step; chosen by hand."""


class Rechecker:
    """Rechecks the first bad step of a run on a thread of the launcher.

    Args:
        run: folder of the run.
        say: prints one line for the user.
    """

    def __init__(self, run: Path, say: Callable[[str], None]) -> None:
        self._run, self._say = run, say
        self._earlier = {one.step for one in stored(run)}
        self._job_ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="mothtrap recheck", daemon=True)

    def begin(self) -> None:
        """Start waiting for a bad step."""
        self._thread.start()

    def finish(self) -> None:
        """Wait for the result, and print it; Ctrl-C skips it."""
        self._job_ended.set()
        try:
            self._thread.join()
        except KeyboardInterrupt:
            self._say("  recheck skipped")

    def _watch(self) -> None:
        ended = False
        while not ended:
            ended = self._job_ended.wait(LOOK_EVERY_S)
            bad = self._bad_step()
            if bad is not None:
                self._recheck(bad)
                return

    def _bad_step(self) -> Stored | None:
        """Return the first bad step that this job has stored."""
        return next(
            (
                one
                for one in stored(self._run)
                if one.step not in self._earlier
                and one.snapshot is not None
                and is_onset(one.snapshot.reason)
            ),
            None,
        )

    def _recheck(self, bad: Stored) -> None:
        try:
            with tempfile.TemporaryDirectory(prefix="mothtrap-recheck-") as scratch:
                beside = not self._job_ended.is_set()
                found = rechecked(self._run, bad, Path(scratch), beside=beside)
            said = conclusion(found.results, found.warnings)
            self._say(f"mothtrap: recheck of step {bad.step}: {said}")
            keep(self._run, found, (f"recheck: {said}",))
        except (MothtrapError, OSError, ValueError) as err:
            self._say(f"mothtrap: cannot recheck step {bad.step} ({in_one_line(err)})")


def rechecked(run: Path, bad: Stored, scratch: Path, *, beside: bool) -> Replayed:
    """Replay a step in a copy of its script's folder.

    Args:
        run: folder of the run; its job may still run.
        bad: the step.
        scratch: empty folder for the copy.
        beside: the job is still running, so the replay gets a low priority.

    Raises:
        ReplayError: the folder is too large to be copied, or the step cannot be replayed.
    """
    snapshot = bad.snapshot
    if snapshot is None:
        raise ReplayError("the kept step is damaged")
    folder, copy = Path(snapshot.cwd), scratch / "copy"
    copy_folder(folder, copy, run.parent)
    options = ReplayOptions(
        step=bad.step,
        command=command_in(snapshot.command, folder, copy),
        cwd=str(copy),
        copied=True,
        background=beside,
        anyway=True,
        narrow=False,
    )
    return replay(run, options, starting=_refuse_foreign)


def conclusion(results: Sequence[ReplayResult], warnings: Sequence[str]) -> str:
    """Return whether a replayed fault is repeatable, transient, or neither.

    Args:
        results: results of the replay, by rank.
        warnings: warnings of the replay, including the interpretation of a second replay.
    """
    if all_match(results):
        return REPEATABLE
    said = [text for text in warnings if text in (TRANSIENT, NOT_DETERMINISTIC)]
    if said:
        return said[0]
    why = "; ".join(warnings) or "the step could not be compared with the run"
    return f"no conclusion: {why}"


def _refuse_foreign(start: Start) -> None:
    if start.foreign:
        raise ReplayError(f"the step was recorded on {start.foreign}")
