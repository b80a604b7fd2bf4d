"""Reads what names in a line of code stand for, without running any code."""

from __future__ import annotations

import ast
from types import FrameType, ModuleType
from typing import Any

from torch import nn


class _Nothing:
    """Stands for what cannot be read."""


NOTHING = _Nothing()


def value_of(node: ast.AST, frame: FrameType) -> Any:
    """Return what a name, `a.b` or `a[0]` stands for in a frame.

    Attributes are looked up where objects keep them: no property and no `__getattr__` of
    the user's runs.

    Returns:
        The value, or `NOTHING` where it cannot be read so.
    """
    if isinstance(node, ast.Name):
        if node.id in frame.f_locals:
            return frame.f_locals[node.id]
        return frame.f_globals.get(node.id, NOTHING)
    if isinstance(node, ast.Attribute):
        return _attribute(value_of(node.value, frame), node.attr)
    if isinstance(node, ast.Subscript):
        try:
            key = ast.literal_eval(node.slice)
        except ValueError:
            return NOTHING
        return _item(value_of(node.value, frame), key)
    return NOTHING


def _attribute(owner: Any, name: str) -> Any:
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


def _item(owner: Any, key: Any) -> Any:
    if type(owner) is dict and isinstance(key, str | int):
        return owner.get(key, NOTHING)
    if type(owner) in (list, tuple) and type(key) is int and -len(owner) <= key < len(owner):
        return owner[key]
    return NOTHING
