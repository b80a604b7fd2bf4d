"""Gradients of one model that an optimizer applies to the weights of another model."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import Any, Final

from mothtrap.adapters.keras.layers import as_keras
from mothtrap.adapters.keras.weights import value_of
from mothtrap.adapters.tensorflow.hooks import values_of
from mothtrap.adapters.tensorflow.probes.probes import Applied
from mothtrap.core.adapters import Job
from mothtrap.core.facts.compiling import UpdateDropped
from mothtrap.tracing.describe.array_digests import digest_of

REPORTED_AT: Final = (8, 32, 128, 512)
"""Steps of an optimizer after which this is reported."""


def source_elsewhere(
    known: Sequence[tuple[Any, Any]], gradients: Sequence[Any], variables: Sequence[Any]
) -> weakref.ref[Any] | None:
    """Return a variable whose gradient is applied to another variable; None if there is none.

    Args:
        known: variables with the gradients that a tape has computed.
        gradients: the gradients of an optimizer, which may have changed them.
        variables: the Keras variables to which it applies them.
    """
    sources = {id(gradient): as_keras(source) for source, gradient in known}
    given = [None if one is None else values_of(one) for one in gradients]
    every = zip(variables, given, strict=False)
    pairs = [(sources[id(g)], variable) for variable, g in every if id(g) in sources]
    others = [source for source, variable in pairs if source is not variable]
    return weakref.ref(others[0]) if others and len(others) == len(pairs) else None


class Elsewhere:
    """Counts the steps in which an optimizer applies the gradients of other variables.

    Args:
        job: receives the facts.
    """

    def __init__(self, job: Job) -> None:
        self._job = job
        self._counts: weakref.WeakKeyDictionary[Any, tuple[int, str]] = weakref.WeakKeyDictionary()

    def stepped(self, applied: Applied, location: str | None) -> None:
        """Process the gradients of a step.

        Some loops copy the updated weights back, for example if several actors share a model. So
        this is reported only if the variable for which the gradient was computed has not changed
        since the first step.
        """
        source = applied.elsewhere() if applied.elsewhere is not None else None
        if source is None:
            return
        count, digest = self._counts.get(applied.optimizer, (0, ""))
        count += 1
        if count == 1 or count in REPORTED_AT:
            now = digest_of([value_of(source)])
            digest = digest or now
            if now == digest and count in REPORTED_AT:
                self._report(applied, count, location)
            elif now != digest:
                count = REPORTED_AT[-1]
        self._counts[applied.optimizer] = count, digest

    def _report(self, applied: Applied, count: int, location: str | None) -> None:
        self._job.fact(
            UpdateDropped(
                step=self._job.now.step,
                function=str(applied.optimizer.name),
                calls=count,
                why="other weights",
                location=location,
            )
        )
