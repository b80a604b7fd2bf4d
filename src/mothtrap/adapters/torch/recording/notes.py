"""Record of the step in progress: events, and the copies that they refer to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import msgspec

from mothtrap.adapters.torch.recording.copies import Copy
from mothtrap.adapters.torch.recording.uncopied import Uncopied, without
from mothtrap.core.snapshots import (
    BatchHanded,
    ForwardCalled,
    KeptStep,
    RecordedEvent,
    RecordedStep,
)


@dataclass(slots=True, eq=False)
class Noted:
    """An event with the copies that it refers to.

    `tree_bytes` is the size of the event alone, `nbytes` includes the copies. `evaluated`: a model
    was called without autograd after a batch; `used`: a model in training was called.
    """

    event: RecordedEvent
    copies: dict[str, Copy | Uncopied]
    tree_bytes: int
    nbytes: int
    evaluated: bool = False
    used: bool = False


@dataclass(slots=True, eq=False)
class Notes:
    """Record of the current step so far.

    `nbytes` is the memory of all events and copies; shared copies count for each event.
    """

    events: list[Noted] = field(default_factory=list)
    missing: dict[str, None] = field(default_factory=dict)
    rates: dict[str, tuple[float, ...]] = field(default_factory=dict)
    carried: bool = False
    nbytes: int = 0


@dataclass(slots=True, eq=False)
class Entry:
    """A completed step; `sizes`: memory of each copy by key, and of the events.

    The events are `packed` as MessagePack: a step can consist of thousands of objects, and garbage
    collection would visit all of them for as long as the step is in memory.
    """

    packed: bytes
    copies: Mapping[str, Copy | Uncopied]
    sizes: Mapping[str, int]

    def kept(self) -> KeptStep:
        """Return the step with its arrays in stored form.

        On the host, large values are the copies made when they were observed.
        """
        found = {key: copy.array() for key, copy in self.copies.items()}
        arrays = {key: array for key, array in found.items() if array is not None}
        gone = [c for c in self.copies.values() if isinstance(c, Uncopied) and c.key not in arrays]
        recorded = msgspec.msgpack.decode(self.packed, type=RecordedStep)
        return KeptStep(recorded=without(recorded, gone) if gone else recorded, arrays=arrays)


def latest_evaluations(notes: Notes) -> list[Noted]:
    """Return the forward passes without autograd since the latest one with it."""
    found = []
    for noted in reversed(notes.events):
        if isinstance(noted.event, ForwardCalled):
            if noted.event.trains:
                break
            found.append(noted)
    return found


def mark_batches(notes: Notes, *, evaluated: bool = False, used: bool = False) -> None:
    """Mark all batches of a step as used by a model."""
    for noted in notes.events:
        if isinstance(noted.event, BatchHanded):
            noted.evaluated = noted.evaluated or evaluated
            noted.used = noted.used or used
