"""Weights that two optimizers update in turn, with opposing losses.

Two optimizers are compared only if one holds all weights of the other after its own: the last
layers of a chain, such as a discriminator after a generator.
"""

from __future__ import annotations

import weakref
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from mothtrap.adapters.keras.layers import LOCATIONS
from mothtrap.adapters.tensorflow.probes.cells import Array
from mothtrap.adapters.tensorflow.probes.probes import Applied
from mothtrap.core.adapters import Job
from mothtrap.core.facts.optimizers import OpposedOptimizers
from mothtrap.statistics.products import dot, norm

MAX_COMPARED: Final = 4
"""Number of compared gradients of an optimizer; the last gradients are used."""
MAX_ELEMENTS: Final = 1 << 16
NEAR: Final = 4
"""Steps between two gradients that are compared."""
REPORTED_AT: Final = (8, 16, 32)
"""Comparisons after which the result is reported."""


@dataclass(slots=True, eq=False)
class _Latest:
    """The latest gradients of an optimizer, by the identity of the variable."""

    variables: frozenset[int]
    ends: tuple[int, int]
    name: str
    step: int = -NEAR
    gradients: Mapping[int, Array] = field(default_factory=dict)


class Opponents:
    """Compares the gradients that several optimizers give the same weights.

    Args:
        job: receives the facts.
    """

    def __init__(self, job: Job) -> None:
        self._job = job
        self._latest: weakref.WeakKeyDictionary[Any, _Latest] = weakref.WeakKeyDictionary()
        self._cosines: dict[tuple[str, str], list[float]] = {}

    def take(self, applied: Applied, step: int) -> None:
        """Compare the gradients of a step with those of other optimizers."""
        if applied.gradients is None:
            return
        ours = frozenset(map(id, applied.variables))
        ends = id(applied.variables[0]), id(applied.variables[-1])
        known = [one for o, one in list(self._latest.items()) if o is not applied.optimizer]
        before = self._latest.get(applied.optimizer)
        if before is None or before.variables != ours:
            before = _Latest(ours, ends, str(applied.optimizer.name))
            self._latest[applied.optimizer] = before
        narrower = [one for one in known if one.variables < ours]
        wider = [one for one in known if ours < one.variables]
        shared = frozenset[int]().union(*(one.variables for one in narrower), ours if wider else ())
        pairs = [pair for pair in applied.pairs() if id(pair[0]) in shared][-MAX_COMPARED:]
        before.gradients = {
            id(variable): slot.read().reshape(-1)[:MAX_ELEMENTS] for variable, slot in pairs
        }
        before.step = step
        for other in narrower:
            if ends[0] not in other.variables and ends[1] in other.variables:
                self._compare(applied.optimizer, before, other)

    def _compare(self, optimizer: Any, ours: _Latest, other: _Latest) -> None:
        same = ours.gradients.keys() & other.gradients.keys()
        if not same or ours.step - other.step > NEAR:
            return
        one, two = (
            np.concatenate([each.gradients[number] for number in sorted(same)]).astype(np.float64)
            for each in (ours, other)
        )
        size = norm(one) * norm(two)
        if not size or not np.isfinite(size):
            return
        cosines = self._cosines.setdefault((ours.name, other.name), [])
        cosines.append(dot(one, two) / size)
        if len(cosines) in REPORTED_AT:
            self._job.fact(
                OpposedOptimizers(
                    step=self._job.now.step,
                    wide=ours.name,
                    narrow=other.name,
                    shared=len(other.variables),
                    parameters=len(ours.variables),
                    looks=len(cosines),
                    cosine=max(cosines),
                    mean=float(np.mean(cosines)),
                    location=LOCATIONS.get(optimizer),
                )
            )
