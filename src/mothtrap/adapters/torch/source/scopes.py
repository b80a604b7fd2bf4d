"""Values of names at a point in a function, and the statements that assigned them."""

from __future__ import annotations

import ast
import functools
import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import CodeType, FrameType
from typing import Any

from mothtrap.adapters.torch.source.evaluation import Scope
from mothtrap.adapters.torch.source.names import NOTHING, attribute_of
from mothtrap.tracing.source import frames
from mothtrap.tracing.source.frame_variables import variables
from mothtrap.tracing.source.syntax import call_at, parsed

MAX_DEPTH = 12
"""Maximum number of earlier values that are computed for one value. Chosen by hand."""
_OPERATORS = {
    "add_": ast.Add,
    "sub_": ast.Sub,
    "mul_": ast.Mult,
    "div_": ast.Div,
    "pow_": ast.Pow,
}


@dataclass(frozen=True, slots=True)
class Definition:
    """A statement that defines the value of a name.

    Attributes:
        value: the expression; None if the value came from a loop, or cannot be read.
        scope: scope of the expression.
        place: part of the value, for `a, b = ...`.
        in_place: the previous value of the name was changed in place.
    """

    value: ast.expr | None
    scope: FrameScope | LocalScope
    place: int | None = None
    in_place: bool = False


@dataclass(frozen=True, slots=True)
class _Binding:
    line: int
    value: ast.expr | None
    place: int | None
    in_place: bool
    branches: frames.Branches


class FrameScope:
    """Names of a running function, at the time when a certain line ran.

    Args:
        frame: frame of the function.
        line: the line; None: the current line.
        evaluate: evaluates an earlier value of a name from its expression.
        depth: number of earlier values that may still be evaluated.
    """

    def __init__(
        self,
        frame: FrameType,
        line: int | None,
        evaluate: Callable[[ast.AST, Scope], Any],
        depth: int = MAX_DEPTH,
    ) -> None:
        self.file = frame.f_code.co_filename
        self._frame, self._now = frame, frame.f_lineno
        self._line = self._now if line is None else line
        self._evaluate, self._depth = evaluate, depth
        self._bindings = _bindings(frame.f_code, self._now)

    def lookup(self, name: str) -> Any:
        """Return the earlier value of a name, or `NOTHING`."""
        found = self._latest(name, self._line)
        if found is self._latest(name, self._now):
            return self._current(name)
        if found is None or found.value is None or not self._depth:
            return NOTHING
        value = self._evaluate(found.value, self._at(found.line))
        if found.place is None:
            return value
        parts = isinstance(value, tuple | list) and found.place < len(value)
        return value[found.place] if parts else NOTHING

    def definition(self, name: str) -> Definition | None:
        """Return the statement that defined a name; None if its value is from outside."""
        found = self._latest(name, self._line)
        if found is not None:
            return Definition(found.value, self._at(found.line), found.place, found.in_place)
        return self._argument(name)

    def location(self, node: ast.AST) -> str:
        """Return the line of an expression."""
        return frames.line_of(self.file, getattr(node, "lineno", self._line))

    def _at(self, line: int) -> FrameScope:
        return FrameScope(self._frame, line, self._evaluate, self._depth - 1)

    def _current(self, name: str) -> Any:
        first, *others = name.split(".")
        frame, local = self._frame, variables(self._frame)
        # `f_locals` would keep the variables of the frame alive, although the script deletes them.
        places = (frame.f_locals if local is None else dict(local), frame.f_globals)
        value = next((place[first] for place in places if first in place), NOTHING)
        for attribute in others:
            value = attribute_of(value, attribute) if value is not NOTHING else NOTHING
        return value

    def _latest(self, name: str, line: int) -> _Binding | None:
        """Return the last statement above a line that assigns to a name."""
        above = [one for one in self._bindings.get(name, ()) if one.line < line]
        return max(reversed(above), key=lambda one: one.line, default=None)

    def _argument(self, name: str) -> Definition | None:
        """Return the expression that the caller passed for an argument of the function."""
        code, caller = self._frame.f_code, self._frame.f_back
        names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
        if name not in names or caller is None or not frames.is_users(caller):
            return None
        call = running_call(caller)
        if call is None:
            return None
        bound = 1 if names[0] == "self" else 0
        passed = argument_of(call, names.index(name) - bound, name)
        if passed is None:
            return None
        return Definition(passed, FrameScope(caller, None, self._evaluate, self._depth - 1))


class LocalScope:
    """Names of a function whose statements are evaluated again.

    Args:
        file: file that contains the function.
        values: values of its names.
        outside: global names.
        definitions: by name, the expression that defines its value.
    """

    def __init__(
        self,
        file: str,
        values: Mapping[str, Any],
        outside: Mapping[str, Any],
        definitions: Mapping[str, Definition],
    ) -> None:
        self.file = file
        self.values, self.outside, self.definitions = values, outside, definitions

    def lookup(self, name: str) -> Any:
        """Return the value of a name, or `NOTHING`."""
        return self.values[name] if name in self.values else self.outside.get(name, NOTHING)

    def definition(self, name: str) -> Definition | None:
        """Return the expression that defined a name; None if its value is from outside."""
        return self.definitions.get(name)

    def location(self, node: ast.AST) -> str:
        """Return the line of an expression."""
        return frames.line_of(self.file, getattr(node, "lineno", 0))

    def with_value(self, name: str, value: Any, definition: Definition) -> LocalScope:
        """Return the scope after a statement that assigns a value to a name."""
        return LocalScope(
            self.file,
            {**self.values, name: value},
            self.outside,
            {**self.definitions, name: definition},
        )


AnyScope = FrameScope | LocalScope


def argument_of(call: ast.Call, position: int, name: str) -> ast.expr | None:
    """Return the expression passed for an argument of a call; None if unknown."""
    named = {keyword.arg: keyword.value for keyword in call.keywords}
    if name in named:
        return named[name]
    if any(isinstance(part, ast.Starred) for part in call.args):
        return None
    return call.args[position] if 0 <= position < len(call.args) else None


def in_place_method(node: ast.AST) -> tuple[ast.expr, ast.expr] | None:
    """Return the variable that a statement such as `x.div_(y)` changes, and its form `x / y`."""
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return None
    name, changed = node.func.attr, node.func.value
    if not name.endswith("_") or name.endswith("__"):
        return None
    if name in _OPERATORS and len(node.args) == 1:
        written: ast.expr = ast.BinOp(changed, _OPERATORS[name](), node.args[0])
    else:
        function = ast.Attribute(changed, name.rstrip("_"), ast.Load())
        written = ast.Call(ast.copy_location(function, node), node.args, node.keywords)
    return changed, ast.copy_location(written, node)


@functools.lru_cache(maxsize=256)
def _bindings(code: CodeType, line: int) -> Mapping[str, list[_Binding]]:
    tree = parsed(code.co_filename)
    found: dict[str, list[_Binding]] = {}
    if tree is None:
        return found
    for node, branches in frames.own_nodes(frames.scope_of(tree, code, line)):
        for name, value, place, in_place in bound_by(node):
            at = getattr(node, "lineno", 0)
            found.setdefault(name, []).append(_Binding(at, value, place, in_place, branches))
    return found


def bound_by(node: ast.AST) -> list[tuple[str, ast.expr | None, int | None, bool]]:
    """Return the names that a statement assigns: expression, part of it, and in place."""
    if isinstance(node, ast.Assign):
        return [one for target in node.targets for one in _bound(target, node.value)]
    if isinstance(node, ast.AnnAssign | ast.NamedExpr):
        return _bound(node.target, node.value)
    if isinstance(node, ast.AugAssign):
        if isinstance(node.target, ast.Subscript):
            return _bound(node.target, None)
        read = ast.parse(ast.unparse(node.target), mode="eval").body
        written = ast.BinOp(ast.copy_location(read, node), node.op, node.value)
        return [(ast.unparse(node.target), ast.copy_location(written, node), None, True)]
    if isinstance(node, ast.Expr) and (found := in_place_method(node.value)) is not None:
        return [(ast.unparse(found[0]), found[1], None, True)]
    if isinstance(node, ast.For):
        return _bound(node.target, None)
    if isinstance(node, ast.With):
        named = (item.optional_vars for item in node.items if item.optional_vars is not None)
        return [one for target in named for one in _bound(target, None)]
    return []


def _bound(
    target: ast.expr, value: ast.expr | None
) -> list[tuple[str, ast.expr | None, int | None, bool]]:
    if isinstance(target, ast.Name | ast.Attribute):
        return [(ast.unparse(target), value, None, False)]
    if isinstance(target, ast.Subscript):
        return [(ast.unparse(target.value), value, None, True)]
    if not isinstance(target, ast.Tuple | ast.List):
        return []
    found = []
    for place, part in enumerate(target.elts):
        if isinstance(value, ast.Tuple | ast.List) and len(value.elts) == len(target.elts):
            found.extend(_bound(part, value.elts[place]))
        elif isinstance(part, ast.Name | ast.Attribute):
            found.append((ast.unparse(part), value, place, False))
    return found


def running_call(frame: FrameType) -> ast.Call | None:
    """Return the call being made by a frame."""
    positions = itertools.islice(frame.f_code.co_positions(), frame.f_lasti // 2, None)
    place = next(positions, None)
    return None if place is None else call_at(frame.f_code.co_filename, place)
