"""Updates that a script applies to the same weights again and again, outside of any jit."""

from __future__ import annotations

import operator
import weakref
from typing import Any, Final

import jax

from mothtrap.core.adapters import Job
from mothtrap.core.facts.compiling import UpdateDropped
from mothtrap.tracing.source import frames

REPORTED_AT: Final = (64, 256)
"""Number of calls with the same weights after which this is reported. Chosen by hand: an inner loop
over tasks begins with the same weights for each task."""


class AppliedUpdates:
    """Counts updates of the very same weights, until other weights are updated.

    A script that adapts trained weights to many tasks also updates the same weights again and
    again. It has updated other weights before, so it is not reported.

    Args:
        job: receives the facts.
    """

    def __init__(self, job: Job) -> None:
        self._job = job
        self._given: list[weakref.ref[Any]] = []
        self._calls = 0
        self._are_used = False

    def applied(self, function: str, weights: Any) -> None:
        """Count a call to a function that adds updates to weights."""
        if self._are_used:
            return
        leaves = jax.tree_util.tree_leaves(weights)
        if not leaves or any(isinstance(leaf, jax.core.Tracer) for leaf in leaves):
            return
        known = [one() for one in self._given]
        same = len(leaves) == len(known) and all(map(operator.is_, leaves, known))
        self._are_used = bool(known) and not same
        self._calls += 1
        self._given = [weakref.ref(leaf) for leaf in leaves]
        if self._calls in REPORTED_AT:
            self._job.fact(
                UpdateDropped(
                    step=self._job.now.step,
                    function=function,
                    calls=self._calls,
                    location=frames.user_location(),
                )
            )
