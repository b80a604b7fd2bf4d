"""Which line of the user's own code is running."""

from __future__ import annotations

import ast
import functools
import linecache
import os
import sys
from types import CodeType, FrameType

import torch

_TORCH = os.path.dirname(os.path.abspath(torch.__file__)) + os.sep
_OURS = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))) + os.sep
_STDLIB = os.path.dirname(os.path.abspath(os.__file__)) + os.sep
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
    scope = _scope(tree, code)
    names = _names_in_call(scope, call_line)
    best: int | None = None
    for node in ast.walk(scope):
        if isinstance(node, ast.Assign) and node.lineno <= call_line:
            targets = {n.id for t in node.targets for n in ast.walk(t) if isinstance(n, ast.Name)}
            plain = not isinstance(node.value, ast.Constant)
            if targets & names and plain and node.lineno < call_line:
                best = max(best or 0, node.lineno)
    return best


def _scope(tree: ast.Module, code: CodeType) -> ast.AST:
    """The function whose code it is, or the module."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            first = min([node.lineno, *(d.lineno for d in node.decorator_list)])
            if node.name == code.co_name and first == code.co_firstlineno:
                return node
    return tree


def _names_in_call(scope: ast.AST, line: int) -> set[str]:
    """Names in the statement on `line` that can be the loss: read, and not called."""
    names: set[str] = set()
    for node in ast.walk(scope):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
            continue
        on_line = node.lineno <= line <= (node.end_lineno or node.lineno)
        if on_line and node.func.attr in ("backward", "grad"):
            names |= {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}
    return names
