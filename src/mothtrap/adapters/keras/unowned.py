"""Weight matrices that are used in every step but never trained."""

from __future__ import annotations

import weakref
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from typing import Any, Final

import numpy as np

from mothtrap.adapters.keras import layers
from mothtrap.adapters.tensorflow.probes.probes import Look
from mothtrap.core.adapters import Job
from mothtrap.core.facts.optimizers import UnownedParameter
from mothtrap.tracing.jobs.identity import ByIdentity

STEPS: Final = 24
"""Number of inspected steps. Steps in which no layer is described do not count."""
ANEW: Final = 20
"""Steps in which a line creates a layer, after which it is reported."""
MAX_UNTRACKED: Final = 4
"""Maximum number of matrices that no layer tracks; more of them are a loaded model that is not
trained.
"""


class Unowned:
    """Finds variables that no layer tracks, and layers that are recreated in each step.

    Args:
        job: receives the facts.
    """

    def __init__(self, job: Job) -> None:
        self._job = job
        self._steps = self._all_steps = 0
        self._has_layers = False
        self._known: weakref.WeakSet[Any] = weakref.WeakSet()
        self._made: Counter[str] = Counter()
        self._sums: ByIdentity[Any, float] = ByIdentity()

    def step(self, looks: Sequence[Look], given: Callable[[], Collection[int]]) -> None:
        """Process the observations of a step.

        Args:
            looks: observations of the step.
            given: returns the identities of the variables in optimizers.
        """
        if self._steps >= STEPS:
            return
        self._all_steps += 1
        described = any(look.layers for look in looks)
        if self._has_layers and not described:
            return
        self._steps += 1
        self._has_layers |= described
        self._count(looks)
        variables = _untracked(looks, given()) if self._steps in (1, STEPS) else []
        if self._steps == 1:
            for variable in variables:
                self._sums[variable] = _sum(variable)
        elif self._steps == STEPS:
            self._report_made(looks)
            for variable in variables:
                self._report(variable)

    def _count(self, looks: Sequence[Look]) -> None:
        """Count layers with weights that no earlier step used, by the line that created them."""
        every = [call.layer for look in looks for call in look.layers]
        new = {one for one in every if one not in self._known and _is_drawn(one)}
        self._known.update(every)
        if self._steps > 1:
            self._made.update({layers.LOCATIONS.get(layer) or "" for layer in new})

    def _report_made(self, looks: Sequence[Look]) -> None:
        every = [call.layer for look in looks for call in look.layers]
        for place, count in self._made.items():
            layer = next((one for one in every if layers.LOCATIONS.get(one) == place), None)
            kernel = layers.kernel_of(layer) if layer is not None else None
            if count >= ANEW and kernel is not None:
                self._job.fact(
                    UnownedParameter(
                        step=self._job.now.step,
                        name=str(kernel.path),
                        module=layers.name_of(layer),
                        shape=tuple(kernel.shape),
                        reached_steps=self._all_steps,
                        changed=False,
                        made_anew=count,
                        location=place,
                    )
                )

    def _report(self, variable: Any) -> None:
        before = self._sums.get(variable)
        if before is None or layers.GIVEN.get(id(variable)) is variable:
            return
        self._job.fact(
            UnownedParameter(
                step=self._job.now.step,
                name=str(variable.name).partition(":")[0],
                module="",
                shape=tuple(variable.shape),
                reached_steps=self._all_steps,
                changed=_sum(variable) != before,
                untracked=True,
            )
        )


def _untracked(looks: Sequence[Look], given: Collection[int]) -> list[Any]:
    """Return the variables that a step uses, and that neither a layer nor an optimizer tracks."""
    known = {id(v.value) for look in looks for call in look.layers for v in call.root.variables}
    found = [reference() for look in looks for reference in look.watched]
    found = [one for one in found if one is not None and id(one) not in known | set(given)]
    return found if len(found) <= MAX_UNTRACKED else []


def _is_drawn(layer: Any) -> bool:
    """Return whether a layer has its own initial weights, unlike a copy of another layer."""
    kernel = layers.kernel_of(layer)
    return kernel is not None and layers.GIVEN.get(id(kernel)) is not kernel


def _sum(variable: Any) -> float:
    return float(np.abs(variable.numpy()).sum(dtype=np.float64))
