"""Evaluate the statements of a function again, one at a time.

Assignments, `return`, `if`, and loops over known values are followed. Any other statement ends the
evaluation.
"""

from __future__ import annotations

import ast
import inspect
from dataclasses import dataclass, field
from types import FunctionType, MethodType
from typing import Any

from torch import nn

from mothtrap.adapters.torch.source.evaluation import Evaluator, Scope
from mothtrap.adapters.torch.source.names import NOTHING
from mothtrap.adapters.torch.source.scopes import (
    AnyScope,
    Definition,
    LocalScope,
    argument_of,
    bound_by,
)
from mothtrap.tracing.source import frames
from mothtrap.tracing.source.syntax import parsed

MAX_STATEMENTS = 400
"""Maximum number of evaluated statements in one call to a function. Chosen by hand."""
MAX_CALLS = 8
"""Maximum depth of nested function calls. Chosen by hand."""


@dataclass(slots=True)
class Body:
    """A function whose statements were evaluated.

    Attributes:
        statements: expressions in the order in which they ran, with their scope and value.
        result: the returned expression, with its scope; None if unknown.
        returned: its value, or `NOTHING`.
    """

    statements: list[tuple[ast.expr, AnyScope, Any]] = field(default_factory=list)
    result: tuple[ast.expr, AnyScope] | None = None
    returned: Any = NOTHING


class _End(Exception):
    """A statement that cannot be followed, or a `return`."""


class Bodies:
    """Evaluates functions, each call once."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, int], tuple[Body | None, Any, Any]] = {}
        self._depth = 0

    def forget(self) -> None:
        """Release all evaluated functions."""
        self._known.clear()

    def of(self, callee: Any, call: ast.Call, scope: Any, evaluator: Evaluator) -> Body | None:
        """Evaluate a call to a user function or module; None for other calls.

        Args:
            callee: called object.
            call: the expression.
            scope: scope of the expression.
            evaluator: evaluates arguments and statements.
        """
        key = id(call), id(scope)
        if key not in self._known:
            self._known[key] = None, call, scope
            if self._depth < MAX_CALLS:
                self._depth += 1
                try:
                    self._known[key] = self._worked_out(callee, call, scope, evaluator), call, scope
                finally:
                    self._depth -= 1
        return self._known[key][0]

    def _worked_out(
        self, callee: Any, call: ast.Call, scope: Scope, evaluator: Evaluator
    ) -> Body | None:
        function, owner = _function(callee)
        if function is None or not frames.is_users_file(function.__code__.co_filename):
            return None
        written = _written(function)
        if written is None:
            return None
        local = _arguments(function, written, owner, call, scope, evaluator)
        body = Body()
        if local is not None:
            _Run(body, local, evaluator).block(written.body)
        return body


class _Run:
    def __init__(self, body: Body, scope: LocalScope, evaluator: Evaluator) -> None:
        self._body, self._scope, self._evaluator = body, scope, evaluator
        self._left = MAX_STATEMENTS

    def block(self, statements: list[ast.stmt]) -> None:
        """Evaluate the statements of a function while this is possible."""
        try:
            self._block(statements)
        except _End:
            return

    def _block(self, statements: list[ast.stmt]) -> None:
        for statement in statements:
            self._left -= 1
            if not self._left:
                raise _End
            self._statement(statement)

    def _statement(self, node: ast.stmt) -> None:
        if isinstance(node, ast.Return):
            if node.value is not None:
                self._body.result = node.value, self._scope
                self._body.returned = self._evaluator.value(node.value, self._scope)
            raise _End
        if isinstance(node, ast.If):
            test = self._evaluator.value(node.test, self._scope)
            if not isinstance(test, bool | int | float | str | type(None)):
                raise _End
            self._block(node.body if test else node.orelse)
        elif isinstance(node, ast.With):
            self._block(node.body)
        elif isinstance(node, ast.For):
            self._loop(node)
        elif isinstance(node, ast.Assign | ast.AnnAssign | ast.AugAssign | ast.Expr):
            self._assign(node)
        elif not isinstance(node, ast.Pass | ast.Assert | ast.Import | ast.ImportFrom):
            raise _End

    def _assign(self, node: ast.stmt) -> None:
        before = self._scope
        for name, expression, place, in_place in bound_by(node):
            value: Any = NOTHING
            if in_place and not isinstance(before.lookup(name), bool | int | float):
                raise _End  # writes to a tensor that already has its later values
            if expression is not None:
                value = self._evaluator.value(expression, before)
                self._body.statements.append((expression, before, value))
            part = value
            if place is not None:
                inside = isinstance(value, tuple | list) and place < len(value)
                part = value[place] if inside else NOTHING
            made = Definition(expression, before, place, in_place)
            self._scope = self._scope.with_value(name, part, made)

    def _loop(self, node: ast.For) -> None:
        """Evaluate a loop over a list of modules or numbers, with one simple variable."""
        items = self._evaluator.value(node.iter, self._scope)
        if isinstance(items, nn.ModuleList | nn.Sequential):
            items = list(items.children())
        simple = isinstance(node.target, ast.Name) and isinstance(items, list | tuple | range)
        if not simple or node.orelse:
            raise _End
        for item in items:
            made = Definition(None, self._scope)
            self._scope = self._scope.with_value(ast.unparse(node.target), item, made)
            self._block(node.body)


def _function(callee: Any) -> tuple[FunctionType | None, Any]:
    """Return the function that a call runs, and the object that it belongs to."""
    if isinstance(callee, nn.Module):
        forward = getattr(type(callee), "forward", None)  # compiled modules have none
        return (forward, callee) if isinstance(forward, FunctionType) else (None, None)
    if isinstance(callee, MethodType):
        function = callee.__func__
        return (function, callee.__self__) if isinstance(function, FunctionType) else (None, None)
    return (callee, NOTHING) if isinstance(callee, FunctionType) else (None, None)


def _written(function: FunctionType) -> ast.FunctionDef | None:
    code = function.__code__
    tree = parsed(code.co_filename)
    plain = not code.co_flags & (inspect.CO_GENERATOR | inspect.CO_COROUTINE)
    found = frames.scope_of(tree, code, code.co_firstlineno) if tree is not None else None
    return (
        found
        if plain and isinstance(found, ast.FunctionDef) and found.name == code.co_name
        else None
    )


def _arguments(
    function: FunctionType,
    written: ast.FunctionDef,
    owner: Any,
    call: ast.Call,
    scope: Any,
    evaluator: Evaluator,
) -> LocalScope | None:
    """Return the initial scope of a function; None if its arguments are unknown."""
    names = [one.arg for one in (*written.args.posonlyargs, *written.args.args)]
    keywords = [one.arg for one in written.args.kwonlyargs]
    values: dict[str, Any] = _closure(function)
    definitions: dict[str, Definition] = {}
    if owner is not NOTHING and names:
        values[names.pop(0)] = owner
    defaults = inspect.signature(function).parameters
    for position, name in enumerate((*names, *keywords)):
        passed = argument_of(call, position if position < len(names) else -1, name)
        if passed is not None:
            values[name] = evaluator.value(passed, scope)
            definitions[name] = Definition(passed, scope)
        else:
            default = defaults[name].default
            values[name] = NOTHING if default is inspect.Parameter.empty else default
    return LocalScope(function.__code__.co_filename, values, function.__globals__, definitions)


def _closure(function: FunctionType) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=False):
        try:
            found[name] = cell.cell_contents
        except ValueError:
            continue
    return found
