"""Step records as they come, until the run has ended."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

from mothtrap.core.records import StepRecord
from mothtrap.reader.attempts import AttemptView
from mothtrap.store import layout
from mothtrap.store.mirror import mirror_of
from mothtrap.store.places import find_run
from mothtrap.store.worker_reading import ReadState

JUDGE_EVERY_S = 0.5
"""How often it is asked whether the run has ended; chosen by hand."""


def follow(run_path: str | Path, poll_s: float = 0.05) -> Iterator[tuple[int, StepRecord]]:
    """Yield every record of a run, those that are there and those that come.

    The records of one worker come in order; those of different workers interleave.

    Args:
        run_path: the run's folder or URL.
        poll_s: pause between two looks, seconds.

    Yields:
        The worker's rank and the record.

    Raises:
        RunNotFoundError: there is no such run.
    """
    path = find_run(run_path, ".")
    attempts: dict[int, AttemptView] = {}
    states: dict[Path, tuple[int, ReadState]] = {}
    judged_s = float("-inf")
    ended = False
    mirror = mirror_of(path)
    while not ended:
        if mirror is not None:
            mirror.refresh()
        # Judge first and read afterwards: what was written before the end is then read.
        if time.monotonic() - judged_s >= JUDGE_EVERY_S:
            ended = _ended(path, attempts)
            judged_s = time.monotonic()
        found = False
        for rank, state in _states(path, states):
            for record in state.poll():
                found = True
                yield rank, record
        if not found and not ended:
            time.sleep(poll_s)


def _ended(path: Path, attempts: dict[int, AttemptView]) -> bool:
    for number in layout.attempts(path):
        attempts.setdefault(number, AttemptView(layout.attempt_folder(path, number))).refresh()
    return not attempts or attempts[max(attempts)].state() != "running"


def _states(
    path: Path, states: dict[Path, tuple[int, ReadState]]
) -> Iterator[tuple[int, ReadState]]:
    for number in layout.attempts(path):
        attempt = layout.attempt_folder(path, number)
        for rank in layout.workers(attempt):
            folder = layout.worker_folder(attempt, rank)
            if folder not in states:
                states[folder] = (rank, ReadState(folder))
    yield from states.values()
