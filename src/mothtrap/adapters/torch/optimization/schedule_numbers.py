"""Integers that the function of a learning rate schedule reads, found without calling it."""

from __future__ import annotations

import argparse
import functools
from collections.abc import Iterator, Mapping
from types import FunctionType, SimpleNamespace
from typing import Any

_NAMESPACES = (argparse.Namespace, SimpleNamespace)
LEAST = 2
"""Smallest number that may be the length of a schedule."""
MAX_DEPTH = 3
"""Maximum depth of nested functions. Chosen by hand."""


def numbers_read(function: Any, depth: int = MAX_DEPTH) -> dict[str, int]:
    """Return the integers that a function reads, by name.

    These are arguments of a `functools.partial`, defaults, variables of an outer function, globals
    and command-line arguments that the function uses, constants, and attributes of a callable
    object.
    """
    found: dict[str, int] = {}
    if not depth:
        return found
    if isinstance(function, functools.partial):
        found |= numbers_read(function.func, depth - 1)
        found |= dict(_whole(function.keywords))
        found |= dict(_whole({f"argument {n}": a for n, a in enumerate(function.args)}))
    elif isinstance(function, FunctionType):
        found |= _of_function(function)
    elif hasattr(function, "__func__"):  # a method of an object
        found |= _of_object(function.__self__) | numbers_read(function.__func__, depth - 1)
    else:
        found |= _of_object(function)
    return found


def _of_function(function: FunctionType) -> dict[str, int]:
    code = function.__code__
    found = dict(_whole({f"constant {n}": value for n, value in enumerate(code.co_consts)}))
    named = {name: function.__globals__.get(name) for name in code.co_names}
    cells = zip(code.co_freevars, function.__closure__ or (), strict=True)
    named |= {name: _content(cell) for name, cell in cells}
    for name, value in list(named.items()):
        if isinstance(value, _NAMESPACES):
            kept = vars(value)
            named |= {f"{name}.{key}": kept[key] for key in code.co_names if key in kept}
    arguments = code.co_varnames[: code.co_argcount]
    defaults = function.__defaults__ or ()
    named |= dict(zip(arguments[len(arguments) - len(defaults) :], defaults, strict=True))
    return found | dict(_whole(named)) | dict(_whole(function.__kwdefaults__ or {}))


def _of_object(owner: Any) -> dict[str, int]:
    """Return the integers in an object's attributes; properties are not read."""
    try:
        kept = object.__getattribute__(owner, "__dict__")
    except AttributeError:
        return {}
    return dict(_whole(kept)) if type(kept) is dict else {}


def _content(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # not assigned yet
        return None


def _whole(values: Mapping[str, Any]) -> Iterator[tuple[str, int]]:
    for name, value in values.items():
        if type(value) is int and value >= LEAST:
            yield name, value
