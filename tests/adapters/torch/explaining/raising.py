"""Raise an exception of the framework in this process and have it explained."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tests.adapters.torch.watched import watched

from mothtrap.adapters.torch.explaining.failures import explain
from mothtrap.core.facts.failures import ScriptFailed


def raised(act: Callable[[], object]) -> Exception:
    """Return the exception that a function raises."""
    try:
        act()
    except Exception as error:
        return error
    raise AssertionError("nothing was raised")


@contextmanager
def explaining() -> Iterator[Callable[[Callable[[], object]], ScriptFailed]]:
    """Watch this process; yield a function that explains the exception of another function."""
    with watched() as seen:

        def explained(act: Callable[[], object]) -> ScriptFailed:
            found = explain(raised(act), 3, seen.tracer.book, seen.tracer.forwards)
            assert found is not None
            return found

        yield explained


def explained(act: Callable[[], object]) -> ScriptFailed:
    """Return the explanation of the exception that a function raises."""
    with explaining() as told:
        return told(act)


def unexplained(act: Callable[[], object]) -> bool:
    """Return whether an exception is left unexplained."""
    with watched() as seen:
        return explain(raised(act), 3, seen.tracer.book, seen.tracer.forwards) is None
