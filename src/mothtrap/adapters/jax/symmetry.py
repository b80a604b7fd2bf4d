"""Layers whose units began with the same weights, and get the same gradient."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from mothtrap.core.adapters import Job
from mothtrap.core.facts.layers import IdenticalUnits, InitialWeights
from mothtrap.tracing import layer_looks

LOOKS: Final = 12
"""Looks at a layer, the first among them; chosen by hand."""
MOST_ELEMENTS: Final = 1 << 22
ROUNDING: Final = 1e-5
"""Differences between units below this share of the largest value are rounding."""


@dataclass(slots=True)
class _Suspect:
    axis: int
    before: npt.NDArray[Any]
    looks: int = 0


class Symmetry:
    """Looks at weights and gradients of full steps from the first one on.

    Args:
        job: takes the facts.
    """

    def __init__(self, job: Job) -> None:
        self._job = job
        self._known: set[str] = set()
        self._suspects: dict[str, _Suspect] = {}

    def look(self, names: Sequence[str], weights: Sequence[Any], gradients: Sequence[Any]) -> None:
        """Take the weights of a step before it is made, and their gradients."""
        for name, weight, gradient in zip(names, weights, gradients, strict=True):
            if name not in self._known:
                self._known.add(name)
                self._begin(name, weight)
            suspect = self._suspects.get(name)
            if suspect is not None:
                self._again(name, suspect, np.asarray(weight), np.asarray(gradient))

    def _begin(self, name: str, weight: Any) -> None:
        shape = np.shape(weight)
        if self._job.now.step or len(shape) < 2 or math.prod(shape) > MOST_ELEMENTS:
            return
        values = np.array(weight)
        for axis in (len(shape) - 1, 0):  # of flax and by hand; of equinox
            if shape[axis] > 1 and _are_same(values, axis, exact=True):
                self._suspects[name] = _Suspect(axis, values)
                return

    def _again(
        self, name: str, suspect: _Suspect, now: npt.NDArray[Any], gradient: npt.NDArray[Any]
    ) -> None:
        axis, before = suspect.axis, suspect.before
        suspect.looks += 1
        if not (_are_same(now, axis) and _are_same(gradient, axis)) or suspect.looks > LOOKS:
            del self._suspects[name]
            return
        layer = name.rpartition(".")[0] or name
        units = now.shape[axis]
        if suspect.looks == 1:
            self._job.fact(
                InitialWeights(
                    step=self._job.now.step,
                    name=name,
                    layer=layer,
                    layer_type="weight",
                    units=units,
                    fan_in=now.size // units,
                    rms=float(np.sqrt(np.square(now, dtype=np.float64).mean())),
                    std=float(now.std(dtype=np.float64)),
                    gradient_range=layer_looks.central_range(gradient),
                )
            )
        self._job.fact(
            IdenticalUnits(
                step=self._job.now.step,
                name=name,
                layer=layer,
                layer_type="weight",
                units=units,
                looks=suspect.looks,
                zero=not now.any(),
                gradient_zero=not gradient.any(),
                moved=self._job.now.step > 0 and bool((now != before).any()),
            )
        )


def _are_same(values: npt.NDArray[Any], axis: int, *, exact: bool = False) -> bool:
    """Return whether all units of a weight, or what their gradients are, are the same."""
    units = np.moveaxis(values, axis, 0).reshape(values.shape[axis], -1).astype(np.float64)
    if exact:
        return bool((units == units[:1]).all())
    return bool(np.abs(units - units[:1]).max() <= ROUNDING * max(np.abs(units).max(), 1e-30))
