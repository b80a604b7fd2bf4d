"""Optimizers that continue to train the weights of another optimizer."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any, Final

from mothtrap.tracing.jobs.identity import ByIdentity

BESIDE: Final = 4
"""Number of steps up to which an existing optimizer of the same weights counts as concurrent."""


class Takeovers:
    """The optimizer that most recently started to train each weight.

    Args:
        steps_of: returns the number of steps that an optimizer has made.
    """

    def __init__(self, steps_of: Callable[[Any], int]) -> None:
        self._steps_of = steps_of
        self._latest: ByIdentity[Any, weakref.ref[Any]] = ByIdentity()

    def begins(self, optimizer: Any, weight: Any) -> bool:
        """Record the first step of an optimizer; return whether another has trained the weight.

        Args:
            optimizer: a new optimizer.
            weight: its first weight.
        """
        known, self._latest[weight] = self._latest.get(weight), weakref.ref(optimizer)
        earlier = known() if known is not None else None
        is_beside = earlier is not None and self._steps_of(earlier) <= BESIDE
        return known is not None and not is_beside
