"""The latest steps in bounded memory; the oldest are removed to make room."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Mapping
from typing import Generic, TypeVar

Entry = TypeVar("Entry")

MAX_STEPS = 256
"""Maximum number of steps, however small; twice as many as live rules wait for at most."""


class Ring(Generic[Entry]):
    """The latest steps by number, as many as fit.

    A part that several steps share counts once, and is removed with the last of them.

    Args:
        limit_bytes: limit on the total size of all parts. A single step above the limit is not
            kept.
        max_steps: maximum number of steps to keep.

    Attributes:
        limit_bytes: limit that applies from the next added step on.
    """

    def __init__(self, limit_bytes: float, max_steps: int = MAX_STEPS) -> None:
        self.limit_bytes = limit_bytes
        self._max_steps = max_steps
        self._steps: OrderedDict[int, tuple[Entry, Mapping[str, int]]] = OrderedDict()
        self._holders: dict[str, int] = {}
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._steps)

    def __iter__(self) -> Iterator[int]:
        """Yield the numbers of the steps, oldest first."""
        return iter(list(self._steps))

    @property
    def bytes_held(self) -> int:
        """Size of all parts in bytes."""
        return self._bytes

    def push(self, step: int, entry: Entry, sizes: Mapping[str, int]) -> bool:
        """Add a finished step; return whether it is stored.

        Args:
            step: step number; an entry with the same number is replaced.
            entry: data to keep.
            sizes: bytes of its parts, by names under which other steps may share them.
        """
        if step in self._steps:
            self._drop(step)
        for part, size in sizes.items():
            holders = self._holders.get(part, 0)
            self._holders[part] = holders + 1
            self._bytes += 0 if holders else size
        self._steps[step] = entry, sizes
        while self._steps and (
            self._bytes > self.limit_bytes or len(self._steps) > self._max_steps
        ):
            self._drop(next(iter(self._steps)))
        return step in self._steps

    def get(self, step: int) -> Entry | None:
        """Return the record of a step; None if it is no longer stored."""
        found = self._steps.get(step)
        return found[0] if found is not None else None

    def _drop(self, step: int) -> None:
        _, sizes = self._steps.pop(step)
        for part, size in sizes.items():
            self._holders[part] -= 1
            if not self._holders[part]:
                del self._holders[part]
                self._bytes -= size
