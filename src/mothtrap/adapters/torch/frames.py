"""Which line of the user's own code is running."""

from __future__ import annotations

import ast
import functools
import linecache
import os
import sys
from collections.abc import Iterable, Iterator
from types import CodeType, FrameType

import torch

_TORCH = os.path.dirname(os.path.abspath(torch.__file__)) + os.sep
_OURS = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))) + os.sep
_STDLIB = os.path.dirname(os.path.abspath(os.__file__)) + os.sep
_UNNAMED_SCOPES = ("<listcomp>", "<genexpr>", "<setcomp>", "<dictcomp>", "<lambda>")
_FOREIGN = ("site-packages" + os.sep, "dist-packages" + os.sep)


@functools.lru_cache(maxsize=4096)
def _is_ours_or_torch(filename: str) -> bool:
    return (
        filename.startswith(("<frozen", "<string>"))
        or os.path.abspath(filename).startswith((_TORCH, _OURS))
        or filename.endswith("contextlib.py")
    )


@functools.lru_cache(maxsize=4096)
def _is_library(filename: str) -> bool:
    path = os.path.abspath(filename)
    return any(part in path for part in _FOREIGN) or path.startswith(_STDLIB)


def user_frame(skip_init_of: object | None = None) -> FrameType | None:
    """Return the innermost frame outside torch and mothtrap, user code before libraries.

    Args:
        skip_init_of: an object under construction; `__init__` frames that build it are
            passed over, so that the frame is where it was asked for.
    """
    frame: FrameType | None = sys._getframe(1)
    library: FrameType | None = None
    while frame is not None:
        code = frame.f_code
        building = (
            skip_init_of is not None
            and code.co_name == "__init__"
            and frame.f_locals.get(code.co_varnames[0] if code.co_argcount else "") is skip_init_of
        )
        if not building and not _is_ours_or_torch(code.co_filename):
            if not _is_library(code.co_filename):
                return frame
            library = library or frame
        frame = frame.f_back
    return library


def location(frame: FrameType | None) -> str | None:
    """`file:line` of a frame, the file relative to the working directory when below it."""
    return None if frame is None else _place(frame.f_code.co_filename, frame.f_lineno)


@functools.lru_cache(maxsize=4096)
def _place(filename: str, line: int) -> str:
    path = os.path.abspath(filename)
    try:
        inside = os.path.relpath(path)
    except ValueError:  # another drive
        inside = path
    return f"{path if inside.startswith('..') else inside}:{line}"


def assigned_at(frame: FrameType) -> str | None:
    """Where the loss was computed whose `backward` is being called on a frame's line.

    Looks, in the source of the function, for the last assignment above the call to the
    name that the call is about: `loss = criterion(...)` for `loss.backward()`,
    `(loss / n).backward()` and `scaler.scale(loss).backward()`.
    """
    line = _assignment_line(frame.f_code, frame.f_lineno)
    return None if line is None else _place(frame.f_code.co_filename, line)


@functools.lru_cache(maxsize=256)
def _assignment_line(code: CodeType, call_line: int) -> int | None:
    source = "".join(linecache.getlines(code.co_filename))
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):
        return None
    nodes = list(_own_nodes(_scope(tree, code, call_line)))
    read = _names_in_call(nodes, call_line)
    made: list[int] = []
    changed: list[int] = []  # `loss = loss / n`: the loss itself was made before
    for node in nodes:
        if isinstance(node, ast.Assign | ast.AnnAssign | ast.NamedExpr) and not isinstance(
            node.value, ast.Constant
        ):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            written = _names(targets, ast.Store)
            if written & read and node.lineno <= call_line:
                (changed if written & _names([node.value]) else made).append(node.lineno)
    return max(made or changed, default=None)


def _scope(tree: ast.Module, code: CodeType, line: int) -> ast.AST:
    """The function whose code it is, or the module; of a comprehension what surrounds it."""
    best: ast.AST = tree
    for node in ast.walk(tree):
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        first = min([node.lineno, *(d.lineno for d in node.decorator_list)])
        if node.name == code.co_name and first == code.co_firstlineno:
            return node
        if first <= line <= (node.end_lineno or first) and code.co_name in _UNNAMED_SCOPES:
            best = node  # outer functions are walked first
    return best


def _own_nodes(scope: ast.AST) -> Iterator[ast.AST]:
    """Every node of a scope but those of functions and classes inside it."""
    waiting = list(ast.iter_child_nodes(scope))
    while waiting:
        node = waiting.pop()
        yield node
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            waiting.extend(ast.iter_child_nodes(node))


def _names_in_call(nodes: Iterable[ast.AST], line: int) -> set[str]:
    """Names in the `backward` or `grad` call on a line: one of them can be the loss."""
    names: set[str] = set()
    for node in nodes:
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
            continue
        on_line = node.lineno <= line <= (node.end_lineno or node.lineno)
        if on_line and node.func.attr in ("backward", "grad"):
            names |= _names([node])
    return names


def _names(nodes: Iterable[ast.AST | None], context: type[ast.expr_context] = ast.Load) -> set[str]:
    """Names and dotted names that are read (or stored to) anywhere in some nodes."""
    return {
        ast.unparse(inner)
        for node in nodes
        if node is not None
        for inner in ast.walk(node)
        if isinstance(inner, ast.Name | ast.Attribute) and isinstance(inner.ctx, context)
    }
