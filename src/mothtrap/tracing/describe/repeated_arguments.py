"""Steps that get the same batch as the step before, cut out of the script's data again.

A script that passes the same array on purpose (full-batch training, fixed points) passes the same
object in each step, or holds the batch in a variable. A slice that never moves is a new array each
time, and the script holds an array with many more rows.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from types import FrameType
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from mothtrap.core.adapters import Job
from mothtrap.core.facts.data import OneBatchUsed
from mothtrap.tracing.source import loops
from mothtrap.tracing.source.frames import location
from mothtrap.tracing.source.held_arrays import Read, arrays_in_reach, rows_of, same_as

Array = npt.NDArray[Any]

STEPS: Final = 256
"""Inspected steps of a function; chosen by hand."""
REPORTED_AT: Final = (16, 64)
"""Numbers of repeated batches at which this is reported."""
SHARE: Final = 0.85
"""Share of the inspected steps that must repeat the batch of the step before. Chosen by hand: with
a new permutation for each pass, the first step of a pass does not."""
PART: Final = 0.25
"""Largest share of the rows of an array that is a batch of it; chosen by hand. A larger share
may be its training part."""
KINDS: Final = frozenset("fiub")
"""Kinds of numbers of a batch; random keys have another one."""
MOST_BYTES: Final = 1 << 20
"""Bytes of a batch that are compared: evenly spread rows."""


@dataclass(slots=True)
class _Seen:
    """The latest batch of a function: references to its arrays, and digests of their values.

    `held` contains the identities of arrays that are equal to it.
    """

    steps: int = 0
    repeated: int = 0
    first_step: int = 0
    arrays: list[Callable[[Any], bool]] = field(default_factory=list)
    brief: bytes = b""
    whole: bytes = b""
    held: frozenset[int] = frozenset()
    is_meant: bool = False


class RepeatedArguments:
    """Compares the batches that step functions get from the script.

    Args:
        job: receives the facts.
        read: returns an array as an array of the host, or only its first rows; None if it must not
            be read.
    """

    def __init__(self, job: Job, read: Callable[[Any, int | None], Array | None]) -> None:
        self._job, self._first_rows = job, read
        self._read: Read = lambda one: read(one, None)
        self._seen: dict[str, _Seen] = {}

    def is_done(self, function: str) -> bool:
        """Return whether no more steps of a function are inspected."""
        seen = self._seen.get(function)
        return seen is not None and (seen.steps >= STEPS or seen.is_meant)

    def add(self, function: str, given: Sequence[Any], caller: Callable[[], Any]) -> None:
        """Compare the batch of a step with the one before.

        Args:
            function: name of the step function.
            given: its arguments, without weights and states.
            caller: returns the user's frame that calls it.
        """
        seen = self._seen.setdefault(function, _Seen(first_step=self._job.now.step))
        batch = _batch(given)
        first = [self._first_rows(one, 1) for one in batch]
        if not first or any(one is None for one in first):
            return
        seen.steps += 1
        before, seen.arrays = seen.arrays, [same_as(one) for one in batch]
        is_new = bool(before) and not any(is_same(one) for is_same in before for one in batch)
        brief = _digest(first)
        is_alike, seen.brief = is_new and brief == seen.brief, brief
        rows = self._read(batch[0]) if is_alike else None
        if rows is None or not (rows != rows[:1]).any():
            seen.whole = b""
            return
        before_it, seen.whole = seen.whole, _digest([rows, *map(self._read, batch[1:])])
        if before_it and before_it != seen.whole:
            return
        seen.repeated += 1
        if seen.repeated + 1 in REPORTED_AT:
            seen.held = self._alike(rows, caller())
        elif seen.repeated in REPORTED_AT and seen.repeated >= SHARE * (seen.steps - 1):
            self._report(function, seen, rows, caller())

    def _alike(self, rows: Array, frame: FrameType | None) -> frozenset[int]:
        """Return the identities of the arrays in reach that are equal to a batch."""
        alike = (one for _, one in arrays_in_reach(frame) if tuple(one.shape) == rows.shape)
        return frozenset(
            id(one)
            for one in alike
            if (array := self._read(one)) is not None and np.array_equal(array, rows)
        )

    def _report(self, function: str, seen: _Seen, rows: Array, frame: FrameType | None) -> None:
        held, seen.held = seen.held, frozenset()
        source, others = loops.restarted(frame) if frame is not None else ("", 0)
        of_rows = 0
        if not source:
            if held & self._alike(rows, frame):
                seen.is_meant = True  # the script keeps this batch in a variable
                return
            source, of_rows = rows_of(rows, frame, self._read, PART)
        if source:
            self._job.fact(
                OneBatchUsed(
                    step=self._job.now.step,
                    loader=function,
                    steps=seen.repeated,
                    unused=others,
                    first_step=seen.first_step,
                    rows=len(rows),
                    of_rows=of_rows,
                    source=source,
                    location=location(frame),
                )
            )


def _batch(given: Sequence[Any]) -> list[Any]:
    """Return the arguments that hold the rows of a batch, the largest first."""
    rows = [
        one
        for one in given
        if getattr(getattr(one, "dtype", None), "kind", "") in KINDS
        and len(one.shape)
        and one.shape[0] > 1
    ]
    rows.sort(key=lambda one: -math.prod(one.shape))
    if not rows or len(rows[0].shape) < 2:
        return []
    return [one for one in rows if one.shape[0] == rows[0].shape[0]]


def _digest(arrays: Iterable[Array | None]) -> bytes:
    found = hashlib.blake2b(digest_size=16)
    for array in arrays:
        if array is None:
            continue
        thin = array[:: max(1, -(-array.nbytes // MOST_BYTES))]
        found.update(f"{array.dtype}{array.shape}".encode())
        found.update(np.ascontiguousarray(thin).tobytes())
    return found.digest()
