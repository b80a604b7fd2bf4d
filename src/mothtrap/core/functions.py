"""Functions that a configuration names as `module:function`."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

from mothtrap.core.errors import ConfigError


def function_named(name: str) -> Callable[..., Any]:
    """Import a function by `module:function`.

    Raises:
        ConfigError: the module cannot be imported, or has no such function.
    """
    module, _, attribute = name.partition(":")
    try:
        found = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError) as err:
        raise ConfigError(f"no function {name!r}: {err}") from err
    if not callable(found):
        raise ConfigError(f"{name!r} is a {type(found).__name__}, not a function")
    function: Callable[..., Any] = found
    return function
