"""Thread of a worker that records the position of its training thread while no step ends.

The thread sends no messages to other workers, and calls no collective. Each worker writes a small
file, `RUN/<attempt>/w<rank>/stalled.json`. A reader of all these files can find out which worker
waits for which other worker.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import Any

import psutil

from mothtrap.capture.recorder import Recorder
from mothtrap.core.facts.stalls import CollectiveCall, InputState, WorkerStalled
from mothtrap.session.attached import AttachedAdapters
from mothtrap.store.layout import worker_folder
from mothtrap.store.stalls import give_sign, write_stall
from mothtrap.tracing.source import frames

LOOK_EVERY_S = 1.0
"""Interval between two checks; chosen by hand."""
LEAST_S = 10.0
"""Minimum time without a step for a job to count as stalled; chosen by hand."""
TIMES_A_STEP = 10
"""Time without a step, in multiples of the mean step duration (without the longest step); chosen by
hand.
"""
TIMES_THE_LONGEST = 2
"""The same in multiples of the longest step so far, because evaluations and checkpoints recur."""
IDLE_SHARE = 0.5
"""Share of this limit for which a worker must have been idle; chosen by hand."""
BUSY_CPU = 0.1
"""Share of one processor above which a worker counts as computing; chosen by hand: the threads of
mothtrap use less.
"""
BUSY_BYTES_S = 100_000.0
"""Bytes per second above which a worker counts as reading or writing; chosen by hand."""
STACK = 20
"""Maximum number of stored calls of a stack."""


class StallObserver:
    """Checks once a second whether the worker steps; created by the training thread.

    Args:
        folder: folder of the worker.
        rank: rank of the worker.
        steps: returns the number of steps so far.
        collective: returns the last collective that the process called, given the innermost frame
            of the training thread.
        reading: returns the file and record that input pipelines are working on; None = there are
            no pipelines.
        clock: returns seconds.
        begins: whether to start the thread.
        gives_signs: write a sign of life at every check, which the launcher of the node reads.
    """

    def __init__(
        self,
        folder: Path,
        rank: int,
        steps: Callable[[], int],
        collective: Callable[[FrameType], CollectiveCall | None],
        reading: Callable[[], InputState] | None = None,
        clock: Callable[[], float] = time.monotonic,
        *,
        begins: bool = True,
        gives_signs: bool = False,
    ) -> None:
        self._gives_signs = gives_signs
        self._folder, self._rank, self._steps, self._collective = folder, rank, steps, collective
        self._reading, self._clock = reading, clock
        self._trainer = threading.get_ident()
        self._began_s = self._moved_s = self._still_s = clock()
        self._first = self._last = steps()
        self._longest_s = 0.0
        self._work: tuple[float, float] | None = None
        self._worked_s = clock()
        self._place: tuple[object, int, int] | None = None
        self._placed_s = clock()
        self._read, self._read_s = InputState(), clock()
        self._is_written = False
        self._ends = threading.Event()
        if begins:
            thread = threading.Thread(target=self._run, name="mothtrap stalls", daemon=True)
            thread.start()

    @classmethod
    def of(
        cls,
        attempt: Path,
        rank: int,
        recorder: Recorder[Any],
        adapters: AttachedAdapters,
        *,
        gives_signs: bool,
    ) -> StallObserver:
        """Observe a worker of an attempt."""
        return cls(
            worker_folder(attempt, rank),
            rank,
            lambda: recorder.steps,
            adapters.collective,
            adapters.reading,
            gives_signs=gives_signs,
        )

    def close(self) -> None:
        """Stop observing; a worker that closes its run is not stalled.

        If an exception such as Ctrl-C ends it while it is stalled, its last state is kept.
        """
        self._ends.set()
        if self._is_written and not _has_failed():
            self._write(self._clock(), None)

    def _run(self) -> None:
        with suppress(Exception):  # a worker without this file is reported as unknown
            while not self._ends.wait(LOOK_EVERY_S):
                self.look()

    def look(self) -> None:
        """Compare the number of steps with the previous check.

        Raises:
            OSError: the file cannot be written.
        """
        if self._gives_signs:
            give_sign(self._folder)
        now_s, steps = self._clock(), self._steps()
        if steps != self._last:
            if self._last > self._first:
                self._longest_s = max(self._longest_s, now_s - self._moved_s)
            self._last, self._moved_s, self._still_s, self._work = steps, now_s, now_s, None
            if self._is_written:
                self._write(now_s, None)
                self._is_written = False
            return
        limit_s = self._limit_s()
        if now_s - self._moved_s < limit_s * (1 - IDLE_SHARE):
            return
        frame = sys._current_frames().get(self._trainer)
        if frame is None or not self._is_still(frame, now_s):
            self._still_s = now_s
        self._look_at_input(now_s)
        if now_s - self._moved_s >= limit_s and frame is not None:
            self._write(now_s, frame, is_idle=now_s - self._still_s >= 0.9 * IDLE_SHARE * limit_s)
            self._is_written = True

    def _limit_s(self) -> float:
        made = self._last - self._first
        others_s = self._moved_s - self._began_s - self._longest_s
        mean_s = others_s / max(1, made - 1) if made else 0.0
        return max(LEAST_S, TIMES_A_STEP * mean_s, TIMES_THE_LONGEST * self._longest_s)

    def _is_still(self, frame: FrameType, now_s: float) -> bool:
        """Return whether nothing has happened since the last check."""
        users, call = frames.user_frame_of(frame) or frame, self._collective(frame)
        place = users.f_code, users.f_lineno, call.number if call is not None else 0
        same, self._place = place == self._place, place
        if not same:
            self._placed_s = now_s
        before, since_s = self._work, now_s - self._worked_s
        self._work, self._worked_s = _work(), now_s
        if before is None or not same or since_s <= 0:
            return False
        cpu, moved = ((now - then) / since_s for now, then in zip(self._work, before, strict=True))
        return cpu < BUSY_CPU and moved < BUSY_BYTES_S

    def _look_at_input(self, now_s: float) -> None:
        """Record the current input of the pipelines, and since when it is read."""
        before, self._read = self._read, InputState()
        if self._reading is not None:
            with suppress(Exception):  # private parts of a framework may raise anything
                self._read = self._reading()
        if self._read != before:
            self._read_s = now_s

    def _write(self, now_s: float, frame: FrameType | None, *, is_idle: bool = False) -> None:
        users = frames.user_frame_of(frame)
        state = WorkerStalled(
            step=max(0, self._last - 1),
            rank=self._rank,
            waited_s=now_s - self._moved_s,
            is_idle=is_idle,
            still_s=now_s - self._placed_s,
            function=users.f_code.co_name if users is not None else "",
            location=frames.location(users),
            collective=self._collective(frame) if frame is not None else None,
            has_resumed=frame is None,
            at_s=time.time(),
            stack=_stack(frame),
            reading=self._read.text if frame is not None else "",
            reading_s=now_s - self._read_s if frame and self._read.is_blocked else 0.0,
        )
        write_stall(self._folder, state)


def _has_failed() -> bool:
    """Return whether an exception is ending the script, or this child of `multiprocessing`."""
    errors = sys.exc_info()[1], getattr(sys, "last_value", None)
    return any(error is not None and not isinstance(error, SystemExit) for error in errors)


def _stack(frame: FrameType | None) -> tuple[str, ...]:
    lines: list[str] = []
    while frame is not None and len(lines) < STACK:
        lines.append(f"{frame.f_code.co_name} {frame.f_code.co_filename}:{frame.f_lineno}")
        frame = frame.f_back
    return tuple(lines)


def _work() -> tuple[float, float]:
    """Return processor seconds and bytes read and written of this process and its children."""
    seconds = moved = 0.0
    own = psutil.Process(os.getpid())
    for process in (own, *own.children(recursive=True)):
        with suppress(psutil.Error):
            times = process.cpu_times()
            seconds += times.user + times.system
            if hasattr(process, "io_counters"):  # not on macOS
                counters = process.io_counters()
                moved += counters.read_bytes + counters.write_bytes
    return seconds, moved
