"""Find the operation with an infinite derivative when the loss itself is finite."""

from __future__ import annotations

import ast
import warnings
from types import FrameType
from typing import Any

import torch
from torch import nn

from mothtrap.adapters.torch.source.bad_values import (
    MAX_DEPTH,
    BadValue,
    BadValueSearch,
    is_finite,
)
from mothtrap.adapters.torch.source.evaluation import is_array
from mothtrap.adapters.torch.source.scopes import AnyScope

MAX_EXPRESSIONS = 1_000
"""Maximum number of inspected expressions. Chosen by hand."""
_AT_ZERO = frozenset(["sqrt", "std"])
"""Functions whose derivative is infinite, or 0/0, if their result is 0."""
_AT_ONE = frozenset(["acos", "asin", "arccos", "arcsin"])
"""Functions whose derivative is infinite if their argument is 1 or -1."""


class DerivativeSearch:
    """Searches everything from which a finite loss was computed.

    Args:
        values: evaluates expressions.
    """

    def __init__(self, values: BadValueSearch) -> None:
        self._values = values
        self._seen: set[tuple[int, int]] = set()
        self._found: dict[str, BadValue] = {}
        self._kept: list[AnyScope] = []

    def in_call(self, call: ast.Call, frame: FrameType) -> BadValue | None:
        """Return the only operation with an infinite derivative; None if there are none or several.

        Args:
            call: call of the backward pass.
            frame: frame of the function in which it is written.
        """
        scope = self._values.scope(call, frame)
        with warnings.catch_warnings():
            # such warnings were already issued when the user's code ran
            warnings.simplefilter("ignore")
            for node in self._values.arguments(call):
                self._look(node, scope, MAX_DEPTH)
        self._values.forget()
        return next(iter(self._found.values())) if len(self._found) == 1 else None

    def _look(self, node: ast.expr, scope: AnyScope, depth: int) -> None:
        key = id(node), id(scope)
        if key in self._seen or len(self._seen) >= MAX_EXPRESSIONS or not depth:
            return
        self._seen.add(key)
        self._kept.append(scope)  # kept alive, because another object could get the same id
        if isinstance(node, ast.Name | ast.Attribute):
            definition = scope.definition(ast.unparse(node))
            if definition is not None and definition.value is not None:
                stored = self._values.value(node, scope)
                made = definition.value
                if definition.place is None:
                    self._judge(made, definition.scope, stored)
                self._look(made, definition.scope, depth - 1)
            return
        self._judge(node, scope, self._values.value(node, scope))
        for part in self._values.operands(node, scope):
            self._look(part, scope, depth - 1)
        body = self._values.body(node, scope)
        if body is not None:
            for statement, inner, _ in body.statements:
                self._look(statement, inner, depth - 1)
            if body.result is not None:
                self._look(*body.result, depth - 1)

    def _judge(self, node: ast.expr, scope: AnyScope, value: Any) -> None:
        """Record an operation whose derivative is infinite at its value."""
        operation = _singular(node)
        if operation is None or not self._has_gradient(node, scope, value):
            return
        given, power = operation
        at = value if power else self._values.value(given, scope)
        if not is_array(at) or is_finite(at) is not True:
            return
        tensor = torch.as_tensor(at).detach()
        where = tensor == 0 if power else tensor.abs() == 1
        if bool(where.any()):
            place = scope.location(node)
            shown = ast.unparse(node if power else given)
            bad = torch.where(where, torch.inf, 0.0)
            self._found.setdefault(place, BadValue(node, scope, ((shown, tensor),), bad))

    def _has_gradient(self, node: ast.expr, scope: AnyScope, value: Any) -> bool:
        if isinstance(value, torch.Tensor) and value.requires_grad:
            return True
        for part in ast.walk(node):
            if isinstance(part, ast.Name | ast.Attribute | ast.Call):
                known = self._values.value(part, scope)
                if isinstance(known, torch.Tensor) and known.requires_grad:
                    return True
                if isinstance(known, nn.Module):
                    return True
        return False


def _singular(node: ast.expr) -> tuple[ast.expr, bool] | None:
    """Return the argument of an operation with a singular derivative, and whether that is at 0."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow):
        exponent = node.right
        power = exponent.value if isinstance(exponent, ast.Constant) else None
        return (node.left, True) if isinstance(power, float) and 0 < power < 1 else None
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return None
    name, owner = node.func.attr, node.func.value
    if name not in _AT_ZERO | _AT_ONE:
        return None
    of_library = isinstance(owner, ast.Name) and owner.id == "torch"
    given = node.args[0] if of_library and node.args else owner
    return given, name in _AT_ZERO
