"""The handle of a logger: numbers that a script gives to it are numbers of the step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mothtrap.core.adapters import Environment, Given
from mothtrap.tracing.handle import AdapterSpec, BaseHandle


class LoggerHandle(BaseHandle):
    """A logger at work; derive from it and give numbers that are logged to `job.log`."""

    def step(self, _: Given) -> None:
        """Do nothing: nothing trains here."""


def logger(
    framework: str,
    handle: type[LoggerHandle],
    requires: str,
    place: Callable[[], Environment] | None = None,
) -> AdapterSpec:
    """Return the spec of a logger, in which nothing trains; it reports the user's numbers only."""
    return AdapterSpec(
        framework=framework, handle=handle, requires=requires, steps="none", place=place
    )


def given(args: tuple[Any, ...], kwargs: dict[str, Any], *names: str) -> list[Any]:
    """Return the first arguments of a call by the names of its parameters; None of those absent."""
    return [args[i] if i < len(args) else kwargs.get(name) for i, name in enumerate(names)]
