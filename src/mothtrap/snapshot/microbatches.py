"""Assignment of the events of a recorded step to its micro-batches.

If a loader returns k batches at one location, and all models are called k times (or a multiple of
k) at their locations, there are k micro-batches, in this order. If no loader returns any, there are
as many as backward passes. Otherwise, the step counts as one micro-batch.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable

from mothtrap.core.snapshots import (
    BatchHanded,
    ForwardCalled,
    RecordedEvent,
    RecordedStep,
    ReferenceDigests,
)


class MicroBatches:
    """The micro-batches of a step, counted from 0.

    Args:
        step: recorded step.
        truth: its result, which contains its backward passes.

    Attributes:
        count: number of micro-batches.
    """

    def __init__(self, step: RecordedStep, truth: ReferenceDigests | None) -> None:
        places = [_place(event) for event in step.events]
        times = Counter(place for place in places if place is not None)
        # If an earlier step is replayed, too, its rows continue into this one.
        self.count = 1 if step.carried else _count(times, truth)
        self._of: dict[int, int | None] = {}
        seen = Counter[Hashable]()
        for event, place in zip(step.events, places, strict=True):
            each, rest = divmod(times[place], self.count)
            self._of[id(event)] = seen[place] // each if each and not rest else None
            seen[place] += 1
        self._events = step.events  # kept alive, so that their ids are not reused

    def of(self, event: RecordedEvent) -> int | None:
        """Return the micro-batch that an event feeds; None if it may feed any."""
        return self._of.get(id(event)) if self.count > 1 else 0


def _place(event: RecordedEvent) -> Hashable:
    """Return a key for calls at one location in the code; None without autograd."""
    if isinstance(event, BatchHanded):
        return "batch", event.site
    if isinstance(event, ForwardCalled):
        return ("forward", event.site, event.root) if event.trains else None
    return "loss", event.site, event.function


def _count(times: Counter[Hashable], truth: ReferenceDigests | None) -> int:
    batches = [n for place, n in times.items() if isinstance(place, tuple) and place[0] == "batch"]
    forwards = [
        n for place, n in times.items() if isinstance(place, tuple) and place[0] == "forward"
    ]
    if batches:
        count = max(batches)
    else:
        sites = Counter(name.partition("#")[0] for name in truth.losses) if truth else {}
        count = max(sites.values(), default=1)
    return count if all(n % count == 0 for n in forwards) else 1
