"""Notes of the step in progress: events, and the copies that they refer to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

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
    """An event and the copies that it names.

    `tree_bytes`: of the event alone; `nbytes`: with the copies. `evaluated`: a model was called
    without autograd after a batch; `used`: one that trains.
    """

    event: RecordedEvent
    copies: dict[str, Copy | Uncopied]
    tree_bytes: int
    nbytes: int
    evaluated: bool = False
    used: bool = False


@dataclass(slots=True, eq=False)
class Notes:
    """Record of a step so far.

    `nbytes`: memory of all events and copies; what several events name counts for each.
    """

    events: list[Noted] = field(default_factory=list)
    missing: dict[str, None] = field(default_factory=dict)
    rates: dict[str, tuple[float, ...]] = field(default_factory=dict)
    carried: bool = False
    nbytes: int = 0


@dataclass(slots=True, eq=False)
class Entry:
    """A step that is over; `sizes`: memory of each copy by its key, and that of the events."""

    recorded: RecordedStep
    copies: Mapping[str, Copy | Uncopied]
    sizes: Mapping[str, int]

    def kept(self) -> KeptStep:
        """Return the step with its arrays, as they go into a file.

        On the host the large ones are those that were copied when they were seen.
        """
        found = {key: copy.array() for key, copy in self.copies.items()}
        arrays = {key: array for key, array in found.items() if array is not None}
        gone = [c for c in self.copies.values() if isinstance(c, Uncopied) and c.key not in arrays]
        recorded = without(self.recorded, gone) if gone else self.recorded
        return KeptStep(recorded=recorded, arrays=arrays)


def latest_evaluations(notes: Notes) -> list[Noted]:
    """The forwards without autograd since the latest one with it."""
    found = []
    for noted in reversed(notes.events):
        if isinstance(noted.event, ForwardCalled):
            if noted.event.trains:
                break
            found.append(noted)
    return found


def mark_batches(notes: Notes, *, evaluated: bool = False, used: bool = False) -> None:
    """Say of all batches of a step that a model was called after them."""
    for noted in notes.events:
        if isinstance(noted.event, BatchHanded):
            noted.evaluated = noted.evaluated or evaluated
            noted.used = noted.used or used
