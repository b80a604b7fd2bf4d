"""A bounded queue of step records between the training thread and another process."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Sequence
from typing import Literal

import msgspec
import numpy as np

from mothtrap.capture.ring import Bytes, ReaderState, Ring
from mothtrap.capture.shedding import BLOCK_S, Shedding
from mothtrap.core.records import StepRecord
from mothtrap.store.wire import decode, encode, size_of

_WHOLE_SHARE = 7 / 8
"""Part of the ring for complete records; the rest is for thinned records. Chosen by hand."""
_WAIT_S = 0.001
_LOOK_S = 0.5
"""Interval between checks that the other process is alive, which take about 50 us each."""


class SideChannel:
    """Passes records to a writer process; accepted data survives the death of this process.

    A record is copied into shared memory before `put` returns. If there is no room, `on_full`
    decides as in `Channel`: `degrade` drops whole tensors first, then the finite rows, then the
    step; `drop` drops the step; `block` waits. If there has been no room for `BLOCK_S`, `block`
    acts like `degrade` until there is.

    Args:
        ring: the shared memory; this process writes.
        alive: returns whether the other process is alive.
        on_error: called once with the fate of the other process; the channel is closed afterwards.
        on_full: action if there is no room.

    Attributes:
        lost: whether the other process has failed or ended.
    """

    def __init__(
        self,
        ring: Ring,
        alive: Callable[[], bool],
        on_error: Callable[[BaseException], None],
        *,
        on_full: Literal["degrade", "drop", "block"] = "degrade",
    ) -> None:
        self._ring, self._alive, self._on_error, self._on_full = ring, alive, on_error, on_full
        self._shedding = Shedding("writer")
        self._closed = self.lost = False
        self._waits = on_full == "block"
        self._looked_s = time.monotonic()
        self._lock = threading.Lock()

    def put(self, record: StepRecord, *, urgent: bool = False) -> None:  # noqa: ARG002  # a Sink
        """Pass on a record; a closed channel ignores it."""
        with self._lock:
            if self._closed or self._has_failed():
                return
            record = self._shedding.settle(record)
            parts = encode(record)
            if self._waits:
                self._waits = self._wait_to_write(parts, time.monotonic() + BLOCK_S)
                if not self._waits and not self._closed:
                    self._write_less(record)
            elif self._write(parts, _WHOLE_SHARE):
                self._waits = self._on_full == "block"
            else:
                self._write_less(record)

    def close(self, timeout_s: float = 30.0) -> bool:
        """Wait for the other process to finish; return False on timeout."""
        with self._lock:
            if self._closed:
                return True
            deadline_s = time.monotonic() + timeout_s
            last = self._shedding.last()
            if last is not None:
                self._wait_to_write(encode(last), deadline_s, is_last=True)
            self._ring.finish()
            while self._ring.state != ReaderState.DONE and not self._has_failed():
                if time.monotonic() >= deadline_s:
                    return False
                time.sleep(_WAIT_S)
            self._closed = True
            return True

    def take_back(self) -> list[StepRecord]:
        """Return the unread data of a lost process, and unanswered requests."""
        with self._lock:
            messages: list[list[Bytes]] = [[]]
            for data, last in self._ring.read(sys.maxsize):
                messages[-1].append(data)
                if last:
                    messages.append([])
            records = []
            for parts in messages[:-1]:
                try:
                    records.append(decode(np.concatenate(parts)))
                except (msgspec.DecodeError, ValueError):  # the reader had read the beginning
                    continue
            owed = self._shedding.last()
            return records if owed is None else [*records, owed]

    def _write_less(self, record: StepRecord) -> None:
        """Write the part of a record for which there is room, and the rest with the next record."""
        if self._on_full != "drop":
            if record.raw:
                record = self._shedding.settle(self._shedding.without_raw(record))
                if self._write(encode(record), _WHOLE_SHARE):
                    return
            record = self._shedding.settle(self._shedding.thin(record))
            if self._write(encode(record), 1.0):
                return
        self._shedding.drop(record)
        self._has_failed()

    def _write(self, parts: Sequence[Bytes], share: float) -> bool:
        needed = self._ring.used + self._ring.frame_bytes(size_of(parts))
        return needed <= share * self._ring.size and self._ring.write(parts)

    def _wait_to_write(
        self, parts: Sequence[Bytes], deadline_s: float, *, is_last: bool = False
    ) -> bool:
        """Write a message of any size as room becomes available, if necessary in several frames.

        Args:
            parts: the message.
            deadline_s: time to give up; a message that was begun is completed, unless it is the
                last one.
            is_last: no message follows.

        Returns:
            Whether it is written.
        """
        frames: list[Sequence[Bytes]] = [parts]
        if self._ring.frame_bytes(size_of(parts)) > self._ring.size:
            whole, most = np.concatenate(parts), self._ring.size // 4
            frames = [[whole[at : at + most]] for at in range(0, len(whole), most)]
        for number, frame in enumerate(frames, 1):
            may_stop = is_last or number == 1
            while not self._ring.write(frame, last=number == len(frames)):
                late = may_stop and time.monotonic() >= deadline_s
                if late or self._has_failed():
                    return False
                time.sleep(_WAIT_S)
        return True

    def _has_failed(self) -> bool:
        """Return whether the other process has failed or, checked at intervals, has ended.

        Reported once.
        """
        failed = self._ring.state == ReaderState.FAILED
        gone = False
        if not failed and time.monotonic() - self._looked_s >= _LOOK_S:
            self._looked_s = time.monotonic()
            gone = not self._alive() and self._ring.state < ReaderState.FAILED
        if (failed or gone) and not self._closed:
            self._closed = self.lost = True
            why = self._ring.words if failed else "it was killed from outside"
            self._on_error(OSError(f"the writer process: {why}"))
        return self._closed
