"""State of running trainers that the underlying framework needs, in a run and in a replay.

Scripts branch on counters of their trainer, such as `self.global_step` in a `training_step`. So a
snapshot contains them, and a replay restores them.
"""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from mothtrap.core.snapshots import Counter

Holders = Callable[[Any], Iterator[tuple[str, Any]]]
"""Function that yields the objects of a trainer with its counters, and a name for each."""
_COUNTERS = frozenset({bool, int, float, type(None)})


class TrainerAtWork:
    """The trainer of one library that started most recently.

    Args:
        holders: objects with its counters.

    Attributes:
        idle_closure: whether it calls `optimizer.step` with a closure without computation, because
            the gradients already exist.
    """

    def __init__(self, holders: Holders) -> None:
        self._holders = holders
        self._trainer: weakref.ref[Any] | None = None
        self.idle_closure = False
        at_work.append(self)

    def began(self, trainer: Any, *_: Any) -> None:
        """Register a trainer that starts."""
        self._trainer = weakref.ref(trainer)

    def leave(self) -> None:
        """Unregister the trainer."""
        if self in at_work:
            at_work.remove(self)

    def attributes(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield the attributes that hold the trainer's counters."""
        trainer = self._trainer() if self._trainer is not None else None
        if trainer is not None:
            for name, holder in self._holders(trainer):
                yield name, holder.__dict__


at_work: list[TrainerAtWork] = []
"""Active trainers of this process, one for each library that is watched or replayed."""


def counters() -> dict[str, Counter] | None:
    """Return the counters of all active trainers; None if there are none."""
    found = {
        f"{name}.{key}": value
        for each in at_work
        for name, attributes in each.attributes()
        for key, value in attributes.items()
        if type(value) in _COUNTERS and not (type(value) is float and not math.isfinite(value))
    }
    return found or None


def restore(recorded: Mapping[str, Counter] | None) -> None:
    """Restore the counters of active trainers."""
    if not recorded:
        return
    for each in at_work:
        for name, attributes in each.attributes():
            for key, value in attributes.items():
                own = f"{name}.{key}"
                if own in recorded and type(value) in _COUNTERS:
                    attributes[key] = recorded[own]


def computes_in_closure() -> bool:
    """Return whether a closure passed to an optimizer may compute gradients."""
    return not any(each.idle_closure for each in at_work)
