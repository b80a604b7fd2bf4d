"""Contexts that hide the operations of hooks from modes and tensor types of the user."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple

Context = Callable[[], AbstractContextManager[Any]]


class Unheard(NamedTuple):
    """Contexts of a framework in which no mode and no tensor type of the user sees an operation.

    Attributes:
        modes: returns how many modes need the second, slower context.
        plain: the context where there is no such mode.
        in_modes: the context where there is one.
        heard: undoes `plain`, around functions of the user that are called inside it.
    """

    modes: Callable[[], int]
    plain: Context
    in_modes: Context
    heard: Context

    def enter(self) -> AbstractContextManager[Any]:
        """Return the context that is needed now."""
        return self.in_modes() if self.modes() else self.plain()


def aside(unheard: Unheard | None) -> AbstractContextManager[Any]:
    """Return a context for operations of mothtrap; None if the framework needs none."""
    return nullcontext() if unheard is None else unheard.enter()


def heard(unheard: Unheard | None) -> AbstractContextManager[Any]:
    """Return a context for functions of the user that a hook calls."""
    return nullcontext() if unheard is None else unheard.heard()
