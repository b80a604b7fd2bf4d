"""Gradients that are computed repeatedly without changing a weight."""

from __future__ import annotations

import hashlib
import weakref
from collections.abc import Callable, Sequence
from typing import Any, Final

import keras

from mothtrap.adapters.keras.weights import value_of
from mothtrap.adapters.tensorflow.probes.probes import Look
from mothtrap.core.adapters import Job
from mothtrap.core.facts.compiling import UpdateDropped

REPORTED_AT: Final = (32, 128, 512)
"""Numbers of calls without an update at which this is reported."""


class Unapplied:
    """Counts computed but unapplied gradients, by function.

    Args:
        job: receives the facts.
        given: returns the identities of the variables in optimizers.
    """

    def __init__(self, job: Job, given: Callable[[], frozenset[int]]) -> None:
        self._job, self._given = job, given
        # Calls whose gradients no optimizer received, and a digest of a weight.
        self._idle: weakref.WeakKeyDictionary[Any, tuple[int, bytes]] = weakref.WeakKeyDictionary()

    def ran(self, function: Any, looks: Sequence[Look]) -> None:
        """Record a loop function in which no optimizer was applied."""
        targets = [target for look in looks if not look.by_hand for target in look.targets]
        variable = targets[0].first() if len(targets) == 1 and targets[0].first else None
        if not isinstance(variable, keras.Variable) or targets[0].sources & self._given():
            return
        calls, digest = self._idle.get(function, (0, b""))
        if calls + 1 in (1, *REPORTED_AT):
            before, digest = digest, hashlib.blake2b(value_of(variable).tobytes()).digest()
            if calls and digest != before:
                calls = REPORTED_AT[-1]  # the script itself changes it
        self._idle[function] = calls + 1, digest
        name = getattr(getattr(function, "python_function", function), "__name__", "a function")
        self.report(name, calls + 1, targets[0].location)

    def report(self, function: str, calls: int, place: str | None) -> None:
        """Report a function that has repeatedly computed gradients that were never applied."""
        if calls not in REPORTED_AT:
            return
        if not self._job.now.step:
            told = f"`{function}` computed gradients {calls} times, but no optimizer received them"
            self._job.never_stepped(f"{told} ({place})")
        self._job.fact(
            UpdateDropped(
                step=self._job.now.step,
                function=function,
                calls=calls,
                why="not applied",
                location=place,
            )
        )
