"""Locations in the user's running code."""

from __future__ import annotations

import ast
import functools
import inspect
import linecache
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, TypeGuard, cast

from mothtrap.core import registry
from mothtrap.core.working_folder import absolute, shown
from mothtrap.tracing.jobs import notebooks
from mothtrap.tracing.source import unseen
from mothtrap.tracing.source.syntax import parsed

_OURS = os.path.join(Path(__file__).absolute().parents[2], "")
_STDLIB = os.path.dirname(os.path.abspath(os.__file__)) + os.sep
_UNNAMED_SCOPES = ("<listcomp>", "<genexpr>", "<setcomp>", "<dictcomp>", "<lambda>")
_OWN_SCOPE = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_BRANCHING = (
    *(ast.If, ast.For, ast.AsyncFor, ast.While, ast.Try, ast.TryStar, ast.ExceptHandler),
    ast.match_case,
)
_OTHER_ARM = {"body": "orelse", "orelse": "body"}
Branches = tuple[tuple[int, str], ...]
"""The statements, outermost first, that decide whether a node runs, with the branch of each."""
_FOREIGN = ("site-packages" + os.sep, "dist-packages" + os.sep)
_RUNNERS = (
    *(root + name + os.sep for root in _FOREIGN for name in ("dask", "distributed", "ray")),
    os.path.join(_STDLIB, "concurrent", "futures") + os.sep,
    os.path.join(_STDLIB, "threading.py"),
    "contextlib.py",
)
"""Code that only calls its argument, so that its line is not informative."""
_SENT = "<dynamic-code>"
"""File name of functions that cloudpickle has sent to this process."""


generated: list[Callable[[FrameType], tuple[str, int] | None]] = []
"""Functions that return the user's line from which the running line was generated; None for others.
"""


@functools.cache
def _watched() -> tuple[str, ...]:
    """Return the frameworks that have an adapter."""
    return registry.names("mothtrap.adapters")


def _framework_folders() -> tuple[str, ...]:
    """Return the folders of frameworks that this process has imported."""
    files = [getattr(sys.modules.get(name), "__file__", None) for name in _watched()]
    return tuple(_folder_of(file) for file in files if file)


@functools.lru_cache(maxsize=64)
def _folder_of(file: str) -> str:
    return os.path.dirname(os.path.abspath(file)) + os.sep


@functools.lru_cache(maxsize=4096)
def _is_ours_or_a_frameworks(filename: str) -> bool:
    return (
        filename.startswith(("<frozen", "<string>"))
        or filename == unseen.FILENAME
        or absolute(filename).startswith((_OURS, *_framework_folders()))
        or any(part in filename for part in _RUNNERS)
    )


@functools.lru_cache(maxsize=4096)
def _is_library(filename: str) -> bool:
    path = absolute(filename)
    return any(part in path for part in _FOREIGN) or path.startswith(_STDLIB)


def user_frame(skip_init_of: object | None = None) -> FrameType | None:
    """Return the innermost frame outside frameworks and mothtrap, preferring user code.

    Args:
        skip_init_of: an object under construction; `__init__` frames that build it are skipped, so
            that the result is the frame that requested the object.
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
        filename = code.co_filename
        if filename == _SENT:
            filename = _file_of(frame)
        if not building and not _is_ours_or_a_frameworks(filename):
            if not _is_library(filename):
                return frame
            library = library or frame
        frame = frame.f_back
    return library


def user_frame_of(frame: FrameType | None) -> FrameType | None:
    """Return the innermost frame of the user's own code on another thread's stack."""
    while frame is not None and not is_users(frame):
        frame = frame.f_back
    return frame


def user_location() -> str | None:
    """Return the running line of the user's own code, in the format of `location`."""
    return location(user_frame())


def _file_of(frame: FrameType) -> str:
    """Return the file of a frame's code; for a function from cloudpickle, the file of its module.

    The file is unknown if the module has no such function on that line, because it may be another
    version.
    """
    code = frame.f_code
    if code.co_filename != _SENT:
        return code.co_filename
    module = sys.modules.get(frame.f_globals.get("__name__", ""))
    file = getattr(module, "__file__", None) or _SENT
    return file if code.co_name in linecache.getline(file, code.co_firstlineno) else _SENT


def is_users(frame: FrameType) -> bool:
    """Return whether a frame runs the user's own code."""
    return is_users_file(_file_of(frame))


def is_users_file(filename: str) -> bool:
    """Return whether a file contains the user's own code."""
    # Most files belong to a library, which is faster to find out.
    return not _is_library(filename) and not _is_ours_or_a_frameworks(filename)


def location(frame: FrameType | None) -> str | None:
    """Return `file:line` of a frame, relative to the working directory if below it.

    For code in a notebook, `cell 2, line 4`.
    """
    if frame is None:
        return None
    for line_in_source in generated:
        found = line_in_source(frame)
        if found is not None:
            return _place(*found)
    name, line = _file_of(frame), frame.f_lineno
    may_be_cell = name.startswith("<") or "ipykernel_" in name
    return _place(name, line) if may_be_cell else _in_file(name, line)


def line_of(filename: str, line: int) -> str:
    """Return `file:line` of code, relative to the working directory if below it."""
    return _place(filename, line)


def _place(filename: str, line: int) -> str:
    cell = notebooks.cell_of(filename)
    return _in_file(filename, line) if cell is None else f"cell {cell}, line {line}"


@functools.lru_cache(maxsize=4096)
def _in_file(filename: str, line: int) -> str:
    return f"{shown(filename)}:{line}"


def assigned_at(frame: FrameType) -> str | None:
    """Return the line that computed the loss whose `backward` is being called.

    This is the last assignment above the call, in the source of the function, to the name used in
    the call: `loss = criterion(...)` for `loss.backward()`, `(loss / n).backward()` and
    `scaler.scale(loss).backward()`. None if it depends on the execution, as for assignments in
    branches of an `if`, or in a loop before the call.
    """
    line = _assignment_line(frame.f_code, frame.f_lineno)
    return None if line is None else _place(frame.f_code.co_filename, line)


def returned_at(function: Any) -> str | None:
    """Return the line at which a user's function computes the loss that it returns.

    This is the last assignment to the returned value: the value itself, the value of the key
    `loss`, or the first of several values. If it depends on the execution, it is the beginning of
    the function.

    Args:
        function: may be a method, or wrapped.

    Returns:
        None if the function is not the user's own.
    """
    code = getattr(inspect.unwrap(getattr(function, "__func__", function)), "__code__", None)
    if code is None or not is_users_file(code.co_filename):
        return None
    line = _returned_line(code)
    return _place(code.co_filename, code.co_firstlineno if line is None else line)


@functools.lru_cache(maxsize=256)
def _returned_line(code: CodeType) -> int | None:
    tree = parsed(code.co_filename)
    if tree is None:
        return None
    placed = list(own_nodes(scope_of(tree, code, code.co_firstlineno)))
    returns = [
        (node, branches)
        for node, branches in placed
        if isinstance(node, ast.Return) and not _is_nothing(node.value)
    ]
    values = [_loss_in(node.value) for node, _ in returns]
    if not returns or len({ast.unparse(value) for value in values}) > 1:
        return None
    (last, branches), value = returns[-1], values[-1]
    if not isinstance(value, ast.Name | ast.Attribute):
        return value.lineno
    name = ast.unparse(value)
    made, changed = _assignments(placed, {name}, last.lineno)
    return _only_one(made or changed, branches)


def _is_nothing(value: ast.expr | None) -> bool:
    return value is None or (isinstance(value, ast.Constant) and value.value is None)


def _loss_in(value: Any) -> ast.expr:
    """Return the loss in the result of a function, by the conventions of trainers."""
    if isinstance(value, ast.IfExp):
        return _loss_in(value.orelse)
    if isinstance(value, ast.Tuple) and value.elts:
        return _loss_in(value.elts[0])
    if isinstance(value, ast.Dict):
        for key, inner in zip(value.keys, value.values, strict=True):
            if isinstance(key, ast.Constant) and key.value == "loss":
                return _loss_in(inner)
    if isinstance(value, ast.Call):
        named = {keyword.arg: keyword.value for keyword in value.keywords}
        if "loss" in named:  # `SomeOutput(loss=loss, logits=logits)`, `dict(loss=loss)`
            return _loss_in(named["loss"])
    return cast(ast.expr, value)


def updated_at(frame: FrameType) -> str | None:
    """Return the line after the running line where a function updates weights by their `.grad`.

    None if its source shows no such statement, for example if the update is in another function.
    """
    tree = parsed(frame.f_code.co_filename)
    if tree is None:
        return None
    nodes = [node for node, _ in own_nodes(scope_of(tree, frame.f_code, frame.f_lineno))]
    lines = [node.lineno for node in nodes if _is_update(node) and node.lineno > frame.f_lineno]
    return _place(frame.f_code.co_filename, min(lines)) if lines else None


def _is_update(node: ast.AST) -> TypeGuard[ast.stmt | ast.Call]:
    """Return whether a node updates a variable in place with its gradient."""
    if isinstance(node, ast.Call):
        called = node.func.attr if isinstance(node.func, ast.Attribute) else ""
        writes = called.endswith("_") and called not in ("zero_", "detach_", "requires_grad_")
    else:
        writes = isinstance(node, ast.AugAssign | ast.Assign)
    reads = (n for n in ast.walk(node) if isinstance(n, ast.Attribute) and n.attr == "grad")
    return writes and any(isinstance(attribute.ctx, ast.Load) for attribute in reads)


@functools.lru_cache(maxsize=256)
def _assignment_line(code: CodeType, call_line: int) -> int | None:
    tree = parsed(code.co_filename)
    if tree is None:
        return None
    placed = list(own_nodes(scope_of(tree, code, call_line)))
    calls = _backward_calls(placed, call_line)
    read = _names([node for node, _ in calls])
    made, changed = _assignments(placed, read, call_line)
    return _only_one(made or changed, calls[0][1] if calls else ())


def _assignments(
    placed: Iterable[tuple[ast.AST, Branches]], names: set[str], before: int
) -> tuple[dict[int, Branches], dict[int, Branches]]:
    """Yield lines before a given line that assign or change some names."""
    made: dict[int, Branches] = {}
    changed: dict[int, Branches] = {}  # `loss = loss / n`: the loss itself was computed earlier
    for node, branches in placed:
        if isinstance(node, ast.Assign | ast.AnnAssign | ast.NamedExpr) and not isinstance(
            node.value, ast.Constant
        ):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            written = _names(targets, ast.Store)
            if written & names and node.lineno <= before:
                found = changed if written & _names([node.value]) else made
                found[node.lineno] = branches
    return made, changed


def _only_one(places: Mapping[int, Branches], call: Branches) -> int | None:
    """Return the line of the only assignment whose value the call uses; None if ambiguous."""
    reaching: list[int] = []
    for line in sorted(places, reverse=True):
        branches = places[line]
        if any((owner, _OTHER_ARM.get(arm, "")) in call for owner, arm in branches):
            continue  # not executed in a run that reaches the call
        reaching.append(line)
        if call[: len(branches)] == branches:
            break  # always executed before the call
    return reaching[0] if len(reaching) == 1 else None


def scope_of(tree: ast.Module, code: CodeType, line: int) -> ast.AST:
    """Return the function or module that contains code; for a comprehension, the enclosing one."""
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


def own_nodes(scope: ast.AST) -> Iterator[tuple[ast.AST, Branches]]:
    """Yield every node of a scope, except those inside nested functions and classes."""
    waiting: list[tuple[ast.AST, Branches]] = [(scope, ())]
    while waiting:
        parent, branches = waiting.pop()
        for arm, value in ast.iter_fields(parent):
            inside = branches
            if isinstance(parent, _BRANCHING) and isinstance(value, list) and arm != "finalbody":
                inside = (*branches, (id(parent), arm))
            for node in value if isinstance(value, list) else [value]:
                if isinstance(node, ast.AST):
                    yield node, inside
                    if not isinstance(node, _OWN_SCOPE):
                        waiting.append((node, inside))


def _backward_calls(
    placed: Iterable[tuple[ast.AST, Branches]], line: int
) -> list[tuple[ast.AST, Branches]]:
    """Yield the `backward` or `grad` calls on a line, in which a name can be the loss."""
    return [
        (node, branches)
        for node, branches in placed
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in ("backward", "grad", "manual_backward")
        and node.lineno <= line <= (node.end_lineno or node.lineno)
    ]


def _names(nodes: Iterable[ast.AST | None], context: type[ast.expr_context] = ast.Load) -> set[str]:
    """Yield names and dotted names that are read (or stored to) anywhere in some nodes."""
    return {
        ast.unparse(inner)
        for node in nodes
        if node is not None
        for inner in ast.walk(node)
        if isinstance(inner, ast.Name | ast.Attribute) and isinstance(inner.ctx, context)
    }
