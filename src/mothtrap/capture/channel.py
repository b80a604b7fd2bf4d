"""A bounded queue of step records between the training thread and one consumer."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Literal

import numpy as np

from mothtrap.core.observations import Dropped
from mothtrap.core.records import StepRecord
from mothtrap.statistics.summary import FIELDS

_NONFINITE = [FIELDS.index("nan"), FIELDS.index("inf")]
_RECORD_BYTES = 1024  # what a record weighs beside its arrays, roughly
_OWED_OBSERVATIONS = 1000
"""Facts of dropped steps that are kept for the next record; chosen by hand."""


class Channel:
    """Carries records to `consume` on a thread of its own, never blocking by default.

    The consumer is woken every `poll_s` seconds and gets all that waits, or at once for
    an urgent record: waking a thread at every step would fight the training for the
    interpreter. When `limit_bytes` are waiting (tensors kept whole not counted: they have
    a limit of their own, in `arena`), `on_full` decides: `degrade` keeps the
    numbers of a step and the rows that are not finite, `drop` drops the step, `block`
    waits. The next record, or one at `close`, brings what a dropped one defined and
    observed, and says in a `Dropped` observation what was given up.

    Args:
        name: of the thread.
        consume: called with all waiting records, oldest first.
        on_error: called with what `consume` raised; after that the channel is closed.
        on_dropped: gets the `Dropped` observations, in `put` or `close`, in place of the
            next record.
        raw: whether the consumer wants the tensors that are kept whole.
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
    ) -> None:
        self._on_dropped, self._raw = on_dropped, raw
        self._name, self._consume, self._on_error = name, consume, on_error
        self._limit_bytes, self._on_full, self._poll_s = limit_bytes, on_full, poll_s
        self._waiting: deque[StepRecord] = deque()
        self._bytes = 0
        self._dropped: dict[str, int] = {}
        self._owed: StepRecord | None = None
        self._closed = False
        self._urgent = False
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._run, name=f"mothtrap-{name}", daemon=True)
        self._thread.start()

    def put(self, record: StepRecord, *, urgent: bool = False) -> None:
        """Hand a record over; a closed channel takes nothing."""
        with self._changed:
            if self._closed:
                return
            if record.raw and not self._raw:
                record = replace(record, raw=())
            size = _size(record)
            if self._on_full == "block" and not self._has_room(size):
                self._wake()
                self._changed.wait_for(lambda: self._closed or self._has_room(size))
            elif not self._has_room(size):
                record = self._give_up(record)
                size = _size(record)
                if not self._has_room(size, of=2.0) or self._on_full == "drop":
                    self._drop(record)
                    return
            self._waiting.append(self._settle(record))
            self._bytes += size
            if urgent or not self._has_room(size, of=0.5):
                self._wake()

    def close(self, timeout_s: float = 30.0) -> bool:
        """Let the consumer finish what waits; False when it did not in time."""
        with self._changed:
            if self._owed is not None and not self._closed:
                self._waiting.append(self._settle(self._owed))
            self._closed = True
            self._changed.notify_all()
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def _wake(self) -> None:
        self._urgent = True
        self._changed.notify_all()

    def _has_room(self, size: int, of: float = 1.0) -> bool:
        return not self._waiting or self._bytes + size <= self._limit_bytes * of

    def _give_up(self, record: StepRecord) -> StepRecord:
        if self._on_full == "drop":
            return record
        keep = np.any(record.summary_TF[:, _NONFINITE] > 0, axis=1)
        self._count("statistics rows", int(np.count_nonzero(~keep)))
        return replace(record, tensor_T=record.tensor_T[keep], summary_TF=record.summary_TF[keep])

    def _drop(self, record: StepRecord) -> None:
        self._count("steps", 1)
        self._count("tensors", sum(len(block.tensor_R) for block in record.raw))
        owed = self._owed
        observations = (*(owed.observations if owed else ()), *record.observations)
        self._count("observations", max(0, len(observations) - _OWED_OBSERVATIONS))
        self._owed = replace(
            record,
            defined=(*(owed.defined if owed else ()), *record.defined),
            tensor_T=record.tensor_T[:0],
            summary_TF=record.summary_TF[:0],
            raw=(),
            scalars=(),
            observations=observations[-_OWED_OBSERVATIONS:],
        )

    def _count(self, what: str, lost: int) -> None:
        if lost:
            self._dropped[what] = self._dropped.get(what, 0) + lost

    def _settle(self, record: StepRecord) -> StepRecord:
        """Add to a record what is owed from before."""
        owed, self._owed = self._owed, None
        if owed is not None and owed is not record:
            record = replace(
                record,
                defined=(*owed.defined, *record.defined),
                observations=(*owed.observations, *record.observations),
            )
        if not self._dropped:
            return record
        told = tuple(
            Dropped(step=record.key.step, what=what, count=count, reason=f"{self._name} queue full")
            for what, count in self._dropped.items()
        )
        self._dropped.clear()
        if self._on_dropped is not None:
            for fact in told:
                self._on_dropped(fact)
            return record
        return replace(record, observations=(*record.observations, *told))

    def _take(self) -> tuple[list[StepRecord], bool]:
        with self._changed:
            self._changed.wait_for(lambda: self._closed or self._urgent, self._poll_s)
            self._urgent = False
            records = list(self._waiting)
            self._waiting.clear()
            self._bytes = 0
            self._changed.notify_all()
            return records, self._closed

    def _run(self) -> None:
        finished = False
        try:
            while not finished:
                records, finished = self._take()
                if records:
                    self._consume(records)
        except BaseException as err:  # whatever it is: nobody else would let a waiting put go
            with self._changed:
                self._closed = True
                self._waiting.clear()
                self._changed.notify_all()
            self._on_error(err)


def _size(record: StepRecord) -> int:
    return int(np.asarray(record.summary_TF).nbytes) + _RECORD_BYTES
