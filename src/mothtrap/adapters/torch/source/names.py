"""Find the meaning of names in a line of code, without running any code."""

from __future__ import annotations

import ast
from types import FrameType, ModuleType
from typing import Any

from torch import nn

MAKERS = frozenset(
    {"ones", "zeros", "empty", "full", "rand", "randn", "randint", "arange", "linspace", "eye"}
    | {"new_ones", "new_zeros", "new_empty", "new_full", "expand", "repeat", "randperm"}
)
"""Functions and methods whose arguments are the sizes of the tensor that they create."""


class _Nothing:
    """Placeholder of an unreadable value."""


NOTHING = _Nothing()


def value_of(node: ast.AST, frame: FrameType) -> Any:
    """Return the value of a name, `a.b` or `a[0]` in a frame.

    Attributes are looked up in the objects' own storage: no user-defined property or `__getattr__`
    runs.

    Returns:
        The value, or `NOTHING` if it cannot be read in this way.
    """
    if isinstance(node, ast.Name):
        if node.id in frame.f_locals:
            return frame.f_locals[node.id]
        return frame.f_globals.get(node.id, NOTHING)
    if isinstance(node, ast.Attribute):
        return attribute_of(value_of(node.value, frame), node.attr)
    if isinstance(node, ast.Subscript):
        try:
            key = ast.literal_eval(node.slice)
        except ValueError:
            return NOTHING
        return item_of(value_of(node.value, frame), key)
    return NOTHING


def made_with(code: str, size: int) -> str | None:
    """Return the call in an expression that creates a tensor with a literal size.

    Args:
        code: text of the expression.
        size: size of an axis.
    """
    try:
        tree = ast.parse(f"({code})")
    except (SyntaxError, ValueError):
        return None
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and _called(node) in MAKERS:
            given = [*node.args, *(keyword.value for keyword in node.keywords)]
            sizes = [part for value in given for part in ast.walk(value)]
            if any(isinstance(p, ast.Constant) and p.value == size for p in sizes):
                return ast.unparse(node)
    return None


def _called(node: ast.Call) -> str:
    function = node.func
    if isinstance(function, ast.Attribute):
        return function.attr
    return function.id if isinstance(function, ast.Name) else ""


def attribute_of(owner: Any, name: str) -> Any:
    """Return a stored attribute of an object, without calling properties; or `NOTHING`."""
    if isinstance(owner, nn.Module):
        own = owner.__dict__
        places = (own, own["_parameters"], own["_buffers"], own["_modules"])
        return next((place[name] for place in places if name in place), NOTHING)
    if isinstance(owner, ModuleType | type) or hasattr(type(owner), "__dict__"):
        try:
            return object.__getattribute__(owner, "__dict__").get(name, NOTHING)
        except AttributeError:
            return NOTHING
    return NOTHING


def item_of(owner: Any, key: Any) -> Any:
    """Return an element of a plain dictionary, list, or tuple, or `NOTHING`."""
    if type(owner) is dict and isinstance(key, str | int):
        return owner.get(key, NOTHING)
    if type(owner) in (list, tuple) and type(key) is int and -len(owner) <= key < len(owner):
        return owner[key]
    return NOTHING
