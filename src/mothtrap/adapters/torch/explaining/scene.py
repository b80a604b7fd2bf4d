"""Frames of an uncaught exception: calls, their arguments, and their locations.

Nothing is recorded while the training runs. The frames of an uncaught exception exist until the
process ends, and contain the arguments of every call.
"""

from __future__ import annotations

import ast
import dis
import functools
import itertools
import linecache
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import CodeType, FrameType, TracebackType
from typing import Any

import torch
from torch import nn

from mothtrap.adapters.torch.source.names import value_of
from mothtrap.core.working_folder import absolute
from mothtrap.tracing.source import frames

_MODULE: str = nn.modules.module.__file__
_FUNCTIONAL: str = nn.functional.__file__
_TORCH = os.path.dirname(os.path.abspath(torch.__file__)) + os.sep
MAX_OPERANDS = 6
"""Maximum number of reported tensors of an expression."""


@dataclass(frozen=True, slots=True)
class Call:
    """A module call in progress."""

    module: nn.Module
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Function:
    """A framework function call in progress, with its variables."""

    name: str
    variables: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Scene:
    """Origin of an exception: its frames, calls and modules.

    Attributes:
        error: the exception.
        message: its text.
        calls: modules in whose calls it was raised, outermost first.
        functions: the functions of the framework in which it was raised, outermost first.
        inside: the innermost module itself failed, rather than user code in its `forward`.
        operands: tensors, and lists of tensors, in the failed expression, by their source text.
        code: the text of that expression.
        location: the innermost line of the user's own code.
        frame: frame of that line; None if no user code was involved.
        own: the exception was raised by a `raise` outside the framework.
        of_framework: the innermost frame is the framework's.
    """

    error: BaseException
    message: str
    calls: tuple[Call, ...]
    functions: tuple[Function, ...]
    inside: bool
    operands: Mapping[str, Any]
    code: str
    location: str | None
    frame: FrameType | None
    own: bool
    of_framework: bool

    @property
    def innermost(self) -> Call | None:
        """The innermost module call in progress."""
        return self.calls[-1] if self.calls else None

    @property
    def subject(self) -> Call | None:
        """The module that failed; None if the failure was in an expression of the script."""
        return self.calls[-1] if self.calls and self.inside else None

    def function(self, *names: str) -> Function | None:
        """Return the outermost of some framework functions in progress."""
        return next((f for f in self.functions if f.name in names), None)


def scene_of(error: BaseException) -> Scene:
    """Read the frames of an exception, including those of the framework."""
    entries = list(_entries(error.__traceback__))
    calls, functions = [], []
    inside = False
    acting: TracebackType | None = None
    users: TracebackType | None = None
    for entry in entries:
        frame = entry.tb_frame
        if _is_module_call(frame.f_code):
            calls.append(_call(frame))
            inside = True
        elif _is_torch(frame.f_code.co_filename):
            functions.append(Function(frame.f_code.co_name, frame.f_locals))
        elif not frame.f_code.co_filename.startswith("<frozen"):
            acting, inside = entry, False
            if frames.is_users(frame):
                users = entry
    last = entries[-1] if entries else None
    return Scene(
        error=error,
        message=str(error),
        calls=tuple(calls),
        functions=tuple(functions),
        inside=inside,
        operands=dict(itertools.islice(_operands(acting), MAX_OPERANDS)),
        code=_code(acting),
        location=frames.line_of(users.tb_frame.f_code.co_filename, users.tb_lineno)
        if users
        else None,
        frame=users.tb_frame if users else None,
        own=last is not None and last is acting and _raises(last),
        of_framework=last is not None and _is_torch(last.tb_frame.f_code.co_filename),
    )


def operands_written(error: BaseException) -> dict[str, Any]:
    """Return the tensors named on the user's innermost line, by their source text."""
    users = [e for e in _entries(error.__traceback__) if frames.is_users(e.tb_frame)]
    return dict(_operands(users[-1])) if users else {}


def _entries(traceback: TracebackType | None) -> Iterator[TracebackType]:
    while traceback is not None:
        yield traceback
        traceback = traceback.tb_next


def _call(frame: FrameType) -> Call:
    found = frame.f_locals
    return Call(found["self"], tuple(found.get("args", ())), dict(found.get("kwargs", {})))


def _is_module_call(code: CodeType) -> bool:
    return code.co_name == "_call_impl" and code.co_filename == _MODULE


@functools.lru_cache(maxsize=1024)
def _is_torch(filename: str) -> bool:
    return absolute(filename).startswith(_TORCH)


def _raises(entry: TracebackType) -> bool:
    """Return whether the line contains the `raise` statement itself."""
    byte = entry.tb_frame.f_code.co_code[entry.tb_lasti]
    return dis.opname[byte] in ("RAISE_VARARGS", "RERAISE")


def _code(entry: TracebackType | None) -> str:
    """Return the text of the expression that failed; empty if unknown."""
    if entry is None:
        return ""
    code = entry.tb_frame.f_code
    place = next(itertools.islice(code.co_positions(), entry.tb_lasti // 2, None), None)
    if place is None or None in place:
        return ""
    first, last, begin, end = (int(number or 0) for number in place)
    lines = [linecache.getline(code.co_filename, n).encode() for n in range(first, last + 1)]
    if not lines:
        return ""
    lines[-1] = lines[-1][:end]
    lines[0] = lines[0][begin:]
    return b"".join(lines).decode(errors="replace").strip()


def _operands(entry: TracebackType | None) -> Iterator[tuple[str, Any]]:
    """Return the tensors that an expression names, without running code of the user."""
    code = _code(entry)
    for text in (f"({code})", code):  # the second operand exists in an assignment such as `w -= g`
        try:
            tree = ast.parse(text)
        except (SyntaxError, ValueError):
            continue
        if entry is not None:
            yield from _tensors_named(tree, entry.tb_frame)
        return


def _tensors_named(node: ast.AST, frame: FrameType) -> Iterator[tuple[str, Any]]:
    if isinstance(node, ast.Name | ast.Attribute | ast.Subscript):
        value = value_of(node, frame)
        if isinstance(value, torch.Tensor) or _is_list_of_tensors(value):
            yield ast.unparse(node), value
            return
    for child in ast.iter_child_nodes(node):
        yield from _tensors_named(child, frame)


def _is_list_of_tensors(value: Any) -> bool:
    return (
        type(value) in (list, tuple)
        and 0 < len(value) <= 64
        and all(isinstance(part, torch.Tensor) for part in value)
    )
