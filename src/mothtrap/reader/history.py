"""The numbers of one worker over the whole run, all attempts joined."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from mothtrap.core.needs import Need
from mothtrap.core.records import StepRecord
from mothtrap.core.window import Window
from mothtrap.reader.windows import WindowBuilder, is_step
from mothtrap.store.worker_reading import ReadState

ALL_STEPS = 1 << 40
"""More steps than any training makes: nothing leaves the window."""


@dataclass(slots=True)
class _Part:
    state: ReadState
    began: bool = False


class History:
    """Reads the folders of one worker and keeps what was asked for.

    Where a later attempt does steps again, its numbers replace the earlier ones.

    Args:
        worker: rank.
        needs: statistics to keep; scalars and observations are always kept.
    """

    def __init__(self, worker: int, needs: Sequence[Need] = ()) -> None:
        endless = [
            Need(kinds=n.kinds, statistics=n.statistics, roles=n.roles, steps=ALL_STEPS)
            for n in needs
        ]
        self._builder = WindowBuilder(endless, worker, steps=ALL_STEPS)
        self._parts: dict[Path, _Part] = {}

    def refresh(self, folders: Sequence[Path]) -> None:
        """Read what is new in the worker's folders, one per attempt, in order."""
        for folder in folders:
            part = self._parts.setdefault(folder, _Part(ReadState(folder)))
            for record in part.state.poll():
                if not part.began and is_step(record.key, record.optimizers, record.observations):
                    part.began = True
                    self._builder.rewind(record.key.step)
                self._builder.feed(record)

    def window(self) -> Window:
        """Return everything read so far; its time is 0."""
        return self._builder.window(0.0)

    def damage(self, *, ended: bool) -> tuple[str, ...]:
        """What could not be read; `ended`: a torn end counts."""
        return tuple(
            f"{folder.parent.name}/{text}"
            for folder, part in self._parts.items()
            for text in part.state.damage(ended=ended)
        )


def read_worker(folders: Sequence[Path]) -> Iterator[StepRecord]:
    """Yield the records of a worker as they lie there, attempt after attempt."""
    for folder in folders:
        yield from ReadState(folder).poll()
