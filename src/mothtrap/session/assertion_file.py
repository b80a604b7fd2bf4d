"""Assertions in a Python file of the user."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

from mothtrap.behavior.assertion import Assertion
from mothtrap.core.error_texts import in_one_line
from mothtrap.core.errors import ConfigError


def assertions_in(path: str) -> tuple[Assertion, ...]:
    """Run a Python file, and return its assertions in order of definition.

    Raises:
        ConfigError: the file cannot be read, raises an error, or defines no assertion.
    """
    file = Path(path)
    if file.suffix != ".py" or not file.is_file():
        raise ConfigError(f"{path}: expected a Python file with assertions")
    name = f"mothtrap_assertions_{file.stem}"
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses and annotations look up the module there
    try:
        spec.loader.exec_module(module)
    except Exception as err:  # the file may raise anything
        raise ConfigError(f"{path} cannot be used: {in_one_line(err)}") from err
    found = [each for each in vars(module).values() if isinstance(each, Assertion)]
    if not found:
        raise ConfigError(f"{path} defines no assertion; decorate one with @mothtrap.assertion")
    return tuple({id(each): each for each in found}.values())
