"""Evaluations that get the newest weights, but compute with arrays from when they were compiled."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from typing import Any
from weakref import WeakKeyDictionary

from mothtrap.adapters.jax import internals
from mothtrap.adapters.jax.functions import Layout, Traced, array_kind
from mothtrap.adapters.jax.jitted import Jitted


class OldWeights:
    """Finds the functions that do not use the weights that they get."""

    def __init__(self) -> None:
        self._found: WeakKeyDictionary[Traced, bool] = WeakKeyDictionary()

    def are_used(
        self, jitted: Jitted, layout: Layout, inputs: Any, weights: Collection[int]
    ) -> bool:
        """Return whether a function reads other arrays than the weights that it gets.

        Args:
            jitted: the compiled function.
            layout: its layout.
            inputs: its arguments, by position and by name.
            weights: positions of the newest weights among their leaves.
        """
        found = self._found.get(jitted.traced)
        if found is None:
            args, kwargs = inputs
            closed = jitted.raw.trace(*args, **kwargs).jaxpr
            found = _reads_others(closed, layout, weights)
            self._found[jitted.traced] = found
        return found


def _reads_others(closed: Any, layout: Layout, weights: Collection[int]) -> bool:
    """Return whether results depend on constants with the shapes of the weights instead of them."""
    given = closed.jaxpr.invars
    if not weights or max(weights) >= len(given):
        return False
    if internals.inputs_read(closed.jaxpr, {*layout.forwarded}) & {*weights}:
        return False
    return not _kinds([given[place].aval for place in weights]) - _kinds(closed.consts)


def _kinds(arrays: Sequence[Any]) -> Counter[Any]:
    return Counter(array_kind(one) for one in arrays if hasattr(one, "shape"))
