"""Handle of a logger: numbers that a script passes to it belong to the step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mothtrap.core.adapters import Environment, Given
from mothtrap.tracing.handle import AdapterSpec, BaseHandle


class LoggerHandle(BaseHandle):
    """Base handle for a logger; derive from it and pass logged numbers to `job.log`."""

    def step(self, _: Given) -> None:
        """Do nothing, because a logger does not train."""


def logger(
    framework: str,
    handle: type[LoggerHandle],
    requires: str,
    place: Callable[[], Environment] | None = None,
) -> AdapterSpec:
    """Return the spec of a logger, which does not train and reports only the user's numbers."""
    return AdapterSpec(
        framework=framework, handle=handle, requires=requires, steps="none", place=place
    )


def given(args: tuple[Any, ...], kwargs: dict[str, Any], *names: str) -> list[Any]:
    """Return the first arguments of a call by parameter name; None if absent."""
    return [args[i] if i < len(args) else kwargs.get(name) for i, name in enumerate(names)]
