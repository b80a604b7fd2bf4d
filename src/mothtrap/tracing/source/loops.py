"""Loops around the running line, as the source shows them."""

from __future__ import annotations

import ast
import functools
import math
from collections.abc import Iterator, Mapping
from types import FrameType
from typing import Any

from mothtrap.tracing.source import frames
from mothtrap.tracing.source.frame_variables import variables
from mothtrap.tracing.source.syntax import parsed

COUNTING = {"range": range, "trange": range}
"""Functions that create a loop with a fixed number of iterations."""
PASSING = ("enumerate", "tqdm", "iter", "list", "tuple", "reversed", "track")
"""Functions that yield each element of their first argument."""
MOST_LENGTH = 10**15


def turns_around(frame: FrameType | None) -> list[float]:
    """Return how often each loop around the running line repeats, innermost first.

    Only loops in the user's own code count. NaN stands for a loop of unknown length, such as
    `while`, or a loop over a generator.

    Args:
        frame: frame of the running line.
    """
    found: list[float] = []
    while frame is not None:
        if frames.is_users(frame):
            found += _in_frame(frame)
        frame = frame.f_back
    return found


def restarted(frame: FrameType) -> tuple[str, int]:
    """Return the source of which a loop around the running line takes the first batch every time.

    Such a loop contains `next(iter(source))`. The source is not executed.

    Args:
        frame: the user's frame.

    Returns:
        The source, as the script writes it, and its number of other batches; an empty text if there
        is no such line, or the source is not known to have more than one batch.
    """
    names = {**frame.f_builtins, **frame.f_globals, **dict(variables(frame) or ())}
    for loop in _around(frame):
        for node in ast.walk(loop):
            source = _restarted(node)
            if source is not None and (length := _length(source, names)) > 1:
                return ast.unparse(source), int(length) - 1
    return "", 0


def _restarted(node: ast.AST) -> ast.expr | None:
    """Return `source` of `next(iter(source))` or `next(source.as_numpy_iterator())`."""
    if not isinstance(node, ast.Call) or _last_name(node.func) != "next" or len(node.args) != 1:
        return None
    made = node.args[0]
    if not isinstance(made, ast.Call):
        return None
    called = _last_name(made.func)
    if called in ("iter", "enumerate") and len(made.args) == 1:
        return made.args[0]
    is_method = isinstance(made.func, ast.Attribute) and called in ("as_numpy_iterator", "__iter__")
    return made.func.value if is_method else None  # type: ignore[attr-defined]


def _in_frame(frame: FrameType) -> Iterator[float]:
    """Yield iteration counts of the loops around the running line of a frame, innermost first."""
    names = {**frame.f_builtins, **frame.f_globals, **frame.f_locals}
    for loop in _around(frame):
        yield math.nan if isinstance(loop, ast.While) else _length(loop.iter, names)


def _around(frame: FrameType) -> Iterator[ast.For | ast.AsyncFor | ast.While]:
    """Yield the loops around the running line of a frame, innermost first."""
    code, line = frame.f_code, frame.f_lineno
    for loop in reversed(_loops(code.co_filename, code.co_firstlineno, code.co_name)):
        if loop.lineno <= line <= (loop.end_lineno or loop.lineno) and not _is_else(loop, line):
            yield loop


def _is_else(loop: ast.For | ast.AsyncFor | ast.While, line: int) -> bool:
    """Return whether a line is in the `else` part of a loop, which runs after the loop."""
    return bool(loop.orelse) and line >= loop.orelse[0].lineno


@functools.lru_cache(maxsize=64)
def _loops(file: str, first: int, name: str) -> tuple[ast.For | ast.AsyncFor | ast.While, ...]:
    """Return the loops of a function or a module, outer ones before inner ones."""
    tree: ast.AST | None = parsed(file)
    if tree is None:
        return ()
    if name != "<module>":
        tree = next((one for one in ast.walk(tree) if _begins(one, first)), None)
    if tree is None:
        return ()
    return tuple(_inside(tree))


def _begins(node: ast.AST, line: int) -> bool:
    """Return whether a node is the function whose code begins on a line."""
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        return False
    return line in (node.lineno, *(one.lineno for one in node.decorator_list))


def _inside(node: ast.AST) -> Iterator[ast.For | ast.AsyncFor | ast.While]:
    """Yield the loops in a node, except loops in nested functions and classes."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda):
            continue
        if isinstance(child, ast.For | ast.AsyncFor | ast.While):
            yield child
        yield from _inside(child)


def _length(node: ast.expr, names: Mapping[str, Any]) -> float:
    """Return the number of elements of an expression; NaN if unknown.

    The expression is not executed: only names, attributes, items, and simple arithmetic are
    evaluated.
    """
    if isinstance(node, ast.Call):
        called = _last_name(node.func)
        if called in COUNTING and not node.keywords:
            limits = [_value(one, names) for one in node.args]
            if limits and all(isinstance(one, int) for one in limits):
                return float(len(COUNTING[called](*limits)))
        if called in PASSING and node.args:
            return _length(node.args[0], names)
        if called == "zip" and node.args:
            return min(_length(one, names) for one in node.args)
        return math.nan
    value = _value(node, names)
    if isinstance(value, str | bytes) or not hasattr(type(value), "__len__"):
        return math.nan
    try:
        return float(min(len(value), MOST_LENGTH))
    except Exception:  # a user class may raise; a loader over a stream has no length
        return math.nan


def _last_name(node: ast.expr) -> str:
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def _value(node: ast.expr, names: Mapping[str, Any]) -> Any:
    """Return the value of a simple expression; None if it is not simple."""
    try:
        match node:
            case ast.Constant():
                return node.value
            case ast.Name():
                return names.get(node.id)
            case ast.Attribute():
                return getattr(_value(node.value, names), node.attr, None)
            case ast.Subscript():
                return _value(node.value, names)[_value(node.slice, names)]
            case ast.BinOp():
                return _computed(node.op, _value(node.left, names), _value(node.right, names))
            case ast.Call(func=ast.Name(id="len" | "int"), args=[only]):
                inner = _value(only, names)
                return len(inner) if node.func.id == "len" else int(inner)  # type: ignore[attr-defined]
            case _:
                return None
    except Exception:  # user classes and unknown values may raise
        return None


def _computed(op: ast.operator, left: Any, right: Any) -> Any:
    if not isinstance(left, int | float) or not isinstance(right, int | float):
        return None
    match op:
        case ast.Add():
            return left + right
        case ast.Sub():
            return left - right
        case ast.Mult():
            return left * right
        case ast.FloorDiv():
            return left // right
        case _:
            return None
