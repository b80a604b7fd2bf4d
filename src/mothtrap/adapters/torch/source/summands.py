"""Find the terms of a loss in the user's source, without running any code."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from types import FrameType
from typing import Any

import torch

from mothtrap.adapters.torch.source.evaluation import Scope
from mothtrap.adapters.torch.source.names import NOTHING, attribute_of, item_of
from mothtrap.adapters.torch.source.scopes import AnyScope, FrameScope, running_call

MAX_DEPTH = 12
"""Maximum number of statements between the backward call and a term. Chosen by hand."""
MAX_TERMS = 16
_SAME_TERMS = frozenset(["mean", "sum", "float", "double", "squeeze", "to"])
"""Methods of a sum that do not change its terms."""
_CUTS = frozenset(["detach", "item"])
_PASSES = frozenset(["scale", "backward", "manual_backward"])
"""Methods that receive the loss as their first argument."""


@dataclass(frozen=True, slots=True)
class Summand:
    """A term of a loss.

    Attributes:
        code: source text.
        value: a tensor or a number; the value of `x.detach()` has no graph. `NOTHING` for a call
            whose result is not stored.
        location: line of the sum.
    """

    code: str
    value: Any
    location: str


def summands(frame: FrameType) -> list[Summand]:
    """Return the terms of the loss whose backward a frame is calling.

    Terms are named variables, attributes, elements of lists and dictionaries, and calls. A name
    whose value can no longer be read is omitted. No terms are returned if the loss is not a sum.
    """
    call = running_call(frame)
    if call is None:
        return []
    scope = FrameScope(frame, call.lineno, _unknown)
    given = call.func.value if isinstance(call.func, ast.Attribute) else None
    if call.args and not isinstance(given, ast.Call) and not is_number(_value(given, scope)):
        given = call.args[0]  # `accelerator.backward(loss)`
    found = list(_terms(given, scope, MAX_DEPTH)) if given is not None else []
    return found[:MAX_TERMS] if len(found) > 1 else []


def is_number(value: Any) -> bool:
    """Return whether a value is a number, or a tensor of numbers."""
    return isinstance(value, torch.Tensor | float | int) and not isinstance(value, bool)


def _unknown(_node: ast.AST, _scope: Scope) -> Any:
    """Return `NOTHING` for an earlier value: the terms are the current variables."""
    return NOTHING


def _terms(node: ast.expr, scope: AnyScope, depth: int) -> Iterator[Summand]:
    if not depth:
        return
    if isinstance(node, ast.BinOp):
        yield from _of_arithmetic(node, scope, depth)
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        yield from _terms(node.operand, scope, depth - 1)
    elif isinstance(node, ast.Call):
        inner = list(_of_call(node, scope, depth))
        yield from inner or [Summand(ast.unparse(node), NOTHING, scope.location(node))]
    elif isinstance(node, ast.Name | ast.Attribute | ast.Subscript):
        yield from _of_name(node, scope, depth)


def _of_arithmetic(node: ast.BinOp, scope: AnyScope, depth: int) -> Iterator[Summand]:
    if isinstance(node.op, ast.Add | ast.Sub):
        yield from _terms(node.left, scope, depth - 1)
        yield from _terms(node.right, scope, depth - 1)
    elif isinstance(node.op, ast.Div):
        if not _has_graph(_value(node.right, scope)):
            yield from _terms(node.left, scope, depth - 1)
    elif isinstance(node.op, ast.Mult):
        for factor, term in ((node.left, node.right), (node.right, node.left)):
            if _weighs(factor, term, scope):
                yield from _terms(term, scope, depth - 1)
                return


def _weighs(factor: ast.expr, term: ast.expr, scope: AnyScope) -> bool:
    """Return whether the first operand of a product is a weight, and the second operand a term."""
    if isinstance(factor, ast.Constant):
        return True
    weight = _value(factor, scope)
    if is_number(weight) and not isinstance(weight, torch.Tensor):
        return not isinstance(term, ast.Constant)
    is_weight = isinstance(factor, ast.Call) or isinstance(weight, torch.Tensor)
    trains = isinstance(term, ast.BinOp) or _has_graph(_value(term, scope))
    return is_weight and not _has_graph(weight) and trains


def _has_graph(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.requires_grad


def _of_call(node: ast.Call, scope: AnyScope, depth: int) -> Iterator[Summand]:
    function = node.func
    if isinstance(function, ast.Name) and function.id == "sum" and node.args:
        yield from _elements(node.args[0], scope)
    elif isinstance(function, ast.Attribute):
        owner = function.value
        if function.attr in _CUTS and isinstance(owner, ast.Name | ast.Attribute):
            value = _value(owner, scope)
            if isinstance(value, torch.Tensor):
                yield Summand(ast.unparse(node), value.detach(), scope.location(node))
        elif function.attr in _SAME_TERMS:
            of_torch = _value(owner, scope) is torch and node.args  # `torch.mean(x)`
            yield from _terms(node.args[0] if of_torch else owner, scope, depth - 1)
        elif function.attr in _PASSES and node.args:
            yield from _terms(node.args[0], scope, depth - 1)


def _of_name(node: ast.expr, scope: AnyScope, depth: int) -> Iterator[Summand]:
    definition = scope.definition(ast.unparse(node))
    written = definition.value if definition is not None and definition.place is None else None
    if definition is not None and written is not None and _is_sum(written):
        inner = list(_terms(written, definition.scope, depth - 1))
        if inner:
            yield from inner
            return
    value = _value(node, scope)
    if is_number(value):
        yield Summand(ast.unparse(node), value, scope.location(node))


def _is_sum(node: ast.expr) -> bool:
    """Return whether an expression may be a sum, or a multiple of a sum."""
    if isinstance(node, ast.Call):
        function = node.func
        if isinstance(function, ast.Attribute):
            return function.attr in _SAME_TERMS and _is_sum(function.value)
        return isinstance(function, ast.Name) and function.id == "sum"
    return isinstance(node, ast.BinOp | ast.UnaryOp | ast.Name)


def _elements(node: ast.expr, scope: AnyScope) -> Iterator[Summand]:
    """Yield the tensors of a list or dictionary that is passed to `sum`."""
    if isinstance(node, ast.List | ast.Tuple):
        for part in node.elts:
            yield from _terms(part, scope, 1)
        return
    if isinstance(node, ast.GeneratorExp | ast.ListComp):  # `loss for loss in losses.values()`
        [over] = node.generators if len(node.generators) == 1 else [None]
        if over is None or over.ifs or ast.unparse(over.target) != ast.unparse(node.elt):
            return
        node = over.iter
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        node = node.func.value if node.func.attr == "values" else node
    value = _value(node, scope)
    name, place = ast.unparse(node), scope.location(node)
    if type(value) is dict:
        pairs = [(repr(key), one) for key, one in value.items()]
    elif type(value) in (list, tuple):
        pairs = [(str(number), one) for number, one in enumerate(value)]
    else:
        return
    for key, one in pairs[:MAX_TERMS]:
        if is_number(one):
            yield Summand(f"{name}[{key}]", one, place)


def _value(node: ast.expr | None, scope: AnyScope) -> Any:
    """Return the value of a name, `a.b` or `a[0]`, or `NOTHING`."""
    if isinstance(node, ast.Name):
        return scope.lookup(node.id)
    if isinstance(node, ast.Attribute):
        owner = _value(node.value, scope)
        return attribute_of(owner, node.attr) if owner is not NOTHING else NOTHING
    if isinstance(node, ast.Subscript):
        try:
            key = ast.literal_eval(node.slice)
        except ValueError:
            return NOTHING
        return item_of(_value(node.value, scope), key)
    return NOTHING
