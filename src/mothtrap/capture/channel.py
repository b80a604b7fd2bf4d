"""A bounded queue of step records between the training thread and one consumer."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Literal

from mothtrap.capture.footprint import footprint, held_bytes
from mothtrap.capture.pending import completed
from mothtrap.capture.shedding import BLOCK_S, Shedding
from mothtrap.core.facts.captures import Dropped
from mothtrap.core.records import StepRecord
from mothtrap.core.steps import Mode

_URGENT_RECORDS = 16
"""Maximum number of urgent records that wake the consumer. A job may stay NaN for hours, and waking
the consumer at every step would cost more than the step. Equal to the number of records that the
rules evaluate immediately.
"""
_SHARE = 0.002
"""Share of a processor that a consumer of small records may use. Most of the cost of a call is
fixed, so the consumer is woken less often if a call costs more.
"""
_LONGEST_POLLS = 20
"""Longest sleep, in units of `poll_s`."""


class Channel:
    """Passes records to `consume` on its own thread; by default, `put` never blocks.

    The consumer is woken every `poll_s` seconds (up to twenty times less often if it takes more
    than a five-hundredth of a processor), and gets all waiting records. The first urgent records
    wake it immediately: waking a thread at every step would compete with the training for the
    interpreter. Whole tensors wake it when they fill a quarter of `limit_bytes`. When `limit_bytes`
    are waiting or being consumed (not counting whole tensors, which have a separate limit in
    `arena`), `on_full` decides: `degrade` keeps the numbers of a step and the rows that are not
    finite, `drop` drops the step, and `block` waits; if nothing has moved for `BLOCK_S`, `block`
    acts like `degrade` until something does. The next record, or a record at `close`, contains the
    definitions and observations of a dropped record, and a `Dropped` observation that describes the
    loss. The consumer's thread, not `put`, waits for rows in transfer from a device.

    Args:
        name: name of the thread.
        consume: called with all waiting records, oldest first.
        on_error: called with the exception that `consume` raised; the channel is closed afterwards.
        on_dropped: receives the `Dropped` observations, in `put` or `close`, instead of the next
            record.
        raw: whether the consumer uses whole tensors.
        idle: called at the same rate while the queue is empty; failures are handled as for
            `consume`.

    Attributes:
        lost: train steps that a failed consumer did not process.
    """

    def __init__(
        self,
        name: str,
        consume: Callable[[Sequence[StepRecord]], None],
        on_error: Callable[[BaseException], None],
        *,
        limit_bytes: float,
        on_full: Literal["degrade", "drop", "block"] = "degrade",
        poll_s: float = 0.05,
        on_dropped: Callable[[Dropped], None] | None = None,
        raw: bool = True,
        idle: Callable[[], None] | None = None,
    ) -> None:
        self._consume, self._on_error, self._raw, self._idle = consume, on_error, raw, idle
        self._shedding = Shedding(name, on_dropped)
        self._limit_bytes, self._on_full, self._poll_s = limit_bytes, on_full, poll_s
        self._waiting: deque[StepRecord] = deque()
        self._bytes = self._raw_bytes = 0
        self._consumed: list[StepRecord] = []  # records that the consumer is processing
        self._consumed_bytes = 0
        self.lost = 0
        self._waits = on_full == "block"
        self._closed = False
        self._urgent = False
        self._urgent_left = _URGENT_RECORDS
        # `put` takes this lock directly, which needs fewer calls than a Condition
        self._lock = threading.RLock()
        self._changed = threading.Condition(self._lock)
        self._thread = threading.Thread(target=self._run, name=f"mothtrap-{name}", daemon=True)
        self._thread.start()

    def put(self, record: StepRecord, *, urgent: bool = False) -> None:
        """Pass on a record; a closed channel ignores it."""
        with self._lock:
            if self._closed:
                self.lost += record.key.mode is Mode.TRAIN
                return
            if record.raw and not self._raw:
                record = replace(record, raw=())
            size = footprint(record)
            if not self._has_room(size) and not self._wait_for_room(size):
                if self._on_full != "drop":
                    record = self._shedding.thin(record)
                    size = footprint(record)
                if not self._has_room(size, of=2.0) or self._on_full == "drop":
                    self._shedding.drop(record)
                    return
            self._waiting.append(self._shedding.settle(record))
            self._bytes += size
            if record.raw:
                self._raw_bytes += held_bytes(record.raw)
            self._urgent_left -= urgent
            crowded = max(self._bytes / 2, self._raw_bytes) > self._limit_bytes / 4
            if (urgent and self._urgent_left >= 0) or crowded:
                self._wake()

    def close(self, timeout_s: float = 30.0) -> bool:
        """Wait for the consumer to finish; return False on timeout."""
        with self._changed:
            last = None if self._closed else self._shedding.last()
            if last is not None:
                self._waiting.append(last)
            self._closed = True
            self._changed.notify_all()
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def _wake(self) -> None:
        self._urgent = True
        self._changed.notify_all()

    def _has_room(self, size: int, of: float = 1.0) -> bool:
        taken = self._bytes + self._consumed_bytes
        return not self._waiting or taken + size <= self._limit_bytes * of

    def _wait_for_room(self, size: int) -> bool:
        """Wait if that is requested; return whether there is room now, or no consumer."""
        if not self._waits:
            return False
        self._wake()
        self._waits = self._changed.wait_for(lambda: self._closed or self._has_room(size), BLOCK_S)
        return self._waits

    def _take(self, pause_s: float) -> tuple[list[StepRecord], bool]:
        with self._changed:
            self._changed.wait_for(lambda: self._closed or self._urgent, pause_s)
            self._urgent = False
            records = list(self._waiting)
            self._waiting.clear()
            self._consumed_bytes = self._bytes
            self._bytes = self._raw_bytes = 0
            self._changed.notify_all()
            return records, self._closed

    def _run(self) -> None:
        finished, pause_s = False, self._poll_s
        try:
            while not finished:
                finished, pause_s = self._turn(pause_s)
        except BaseException as err:  # after any error: nothing else would release `put`
            with self._changed:
                self._closed = True
                lost = [*self._consumed, *self._waiting]
                self.lost = sum(record.key.mode is Mode.TRAIN for record in lost)
                self._waiting.clear()
                self._changed.notify_all()
            err.add_note(f"{len(lost)} steps that were waiting for it are lost")
            self._on_error(err)

    def _turn(self, pause_s: float) -> tuple[bool, float]:
        """Consume waiting records after a pause; return whether it is finished, and the pause."""
        records, finished = self._take(pause_s)
        began_s = time.thread_time()
        if records:
            self._consumed = records
            self._consume([completed(record) for record in records])
            self._end_consumption()
        elif self._idle is not None:
            self._idle()
        return finished, self._poll_s * _polls(time.thread_time() - began_s, self._poll_s)

    def _end_consumption(self) -> None:
        with self._changed:
            self._consumed, self._consumed_bytes = [], 0
            self._waits = self._on_full == "block"
            self._changed.notify_all()


def _polls(spent_s: float, poll_s: float) -> float:
    """Return the polling intervals to sleep after a call with `spent_s` of processor time."""
    return min(max(1.0, spent_s / _SHARE / poll_s), _LONGEST_POLLS)
