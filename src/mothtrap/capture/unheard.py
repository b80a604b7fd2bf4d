"""Contexts that hide the operations of hooks from the user's modes and tensor types."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple

Context = Callable[[], AbstractContextManager[Any]]


class Unheard(NamedTuple):
    """Contexts in which the user's modes and tensor types do not see an operation.

    Attributes:
        modes: returns the number of modes that need the second, slower context.
        plain: context without such a mode.
        in_modes: context with such a mode.
        heard: undoes `plain` around user functions that are called inside it.
    """

    modes: Callable[[], int]
    plain: Context
    in_modes: Context
    heard: Context

    def enter(self) -> AbstractContextManager[Any]:
        """Return the context that is currently needed."""
        return self.in_modes() if self.modes() else self.plain()


def aside(unheard: Unheard | None) -> AbstractContextManager[Any]:
    """Return a context for mothtrap's operations; None if the framework needs none."""
    return nullcontext() if unheard is None else unheard.enter()


def heard(unheard: Unheard | None) -> AbstractContextManager[Any]:
    """Return a context for user functions that a hook calls."""
    return nullcontext() if unheard is None else unheard.heard()
