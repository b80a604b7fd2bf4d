"""Contexts that hide hooks from what a user has put around the operations of the framework."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple

Context = Callable[[], AbstractContextManager[Any]]


class Unheard(NamedTuple):
    """Contexts of a framework in which neither modes nor types of the user's see an operation.

    Attributes:
        modes: returns how many modes need the second, slower context.
        plain: the context where there is no such mode.
        in_modes: the context where there is one.
        heard: undoes `plain`, around functions of the user's that are called inside of it.
    """

    modes: Callable[[], int]
    plain: Context
    in_modes: Context
    heard: Context

    def enter(self) -> AbstractContextManager[Any]:
        """Return the context that is needed now."""
        return self.in_modes() if self.modes() else self.plain()


def aside(unheard: Unheard | None) -> AbstractContextManager[Any]:
    """Return a context for operations of ours; None: the framework needs none."""
    return nullcontext() if unheard is None else unheard.enter()


def heard(unheard: Unheard | None) -> AbstractContextManager[Any]:
    """Return a context for functions of the user's that a hook calls."""
    return nullcontext() if unheard is None else unheard.heard()
