"""Facts about weights: units that started equal, and the direction in which a step moved them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import jax
import numpy as np
import numpy.typing as npt

from mothtrap.adapters.jax.functions import Layout
from mothtrap.core.adapters import Job
from mothtrap.core.facts.optimizers import UpdateDirection
from mothtrap.tracing.describe import directions, weights

OF_UPDATES: Final = (UpdateDirection,)
MOST_ELEMENTS: Final = 1 << 22


@dataclass(slots=True)
class _Suspect:
    axis: int
    before: npt.NDArray[Any]
    looks: int = 0


class Symmetry:
    """Inspections of the weights and gradients of full steps, from the first step.

    Args:
        job: receives the facts.
    """

    def __init__(self, job: Job) -> None:
        self._job = job
        self._known: set[str] = set()
        self._suspects: dict[str, _Suspect] = {}

    def look(self, names: Sequence[str], values: Sequence[Any], gradients: Sequence[Any]) -> None:
        """Read the weights before a step, and their gradients."""
        for name, weight, gradient in zip(names, values, gradients, strict=True):
            if name not in self._known:
                self._known.add(name)
                self._begin(name, weight)
            suspect = self._suspects.get(name)
            if suspect is not None and self._job.now.step in weights.STEPS:
                self._again(name, suspect, np.asarray(weight), np.asarray(gradient))

    def _begin(self, name: str, weight: Any) -> None:
        shape = np.shape(weight)
        if self._job.now.step or len(shape) < 2 or math.prod(shape) > MOST_ELEMENTS:
            return
        values = np.array(weight)
        # units axis in Flax and hand-written layers, then in Equinox
        for axis in (len(shape) - 1, 0):
            if shape[axis] > 1 and weights.are_same(values, axis, exact=True):
                self._suspects[name] = _Suspect(axis, values)
                return

    def _again(
        self, name: str, suspect: _Suspect, now: npt.NDArray[Any], gradient: npt.NDArray[Any]
    ) -> None:
        axis, before = suspect.axis, suspect.before
        suspect.looks += 1
        if not (weights.are_same(now, axis) and weights.are_same(gradient, axis)):
            del self._suspects[name]
            return
        step, units = self._job.now.step, now.shape[axis]
        weight = weights.Weight(step, name, name.rpartition(".")[0] or name, "weight", units)
        if suspect.looks == 1:
            sizes = weights.sizes_of(now, gradient)
            self._job.fact(weights.initial(weight, sizes, fan_in=now.size // units))
        self._job.fact(
            weights.identical(
                weight,
                looks=suspect.looks,
                zero=not now.any(),
                gradient_zero=not gradient.any(),
                moved=step > 0 and bool((now != before).any()),
            )
        )


def report_direction(
    job: Job,
    layout: Layout,
    gradients: Sequence[Any],
    before: Sequence[Any],
    after: Sequence[Any],
) -> None:
    """Report the direction in which the step moved the weights, relative to their gradients."""
    job.stood_ready(OF_UPDATES)
    every = zip(layout.weights, gradients, before, after, strict=True)
    found = directions.cosines(one for one in every if not any(map(_is_elsewhere, one[1:])))
    if found:
        job.fact(
            UpdateDirection(
                step=job.now.step,
                optimizer=layout.function,
                layers=tuple(found),
                cosines=tuple(found.values()),
            )
        )


def _is_elsewhere(array: Any) -> bool:
    """Return whether an array was donated, or is also stored in other processes."""
    return isinstance(array, jax.Array) and (array.is_deleted() or not array.is_fully_addressable)
