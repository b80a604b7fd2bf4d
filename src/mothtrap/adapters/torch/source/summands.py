"""Find the terms of a loss in the user's source, without running any code."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from types import FrameType
from typing import Any

import torch

from mothtrap.adapters.torch.job.readable import is_plain
from mothtrap.adapters.torch.source.bodies import Bodies
from mothtrap.adapters.torch.source.evaluation import Evaluator, Scope
from mothtrap.adapters.torch.source.names import NOTHING, attribute_of, item_of
from mothtrap.adapters.torch.source.scopes import AnyScope, FrameScope, LocalScope, running_call

MAX_DEPTH = 12
"""Maximum number of statements between the backward call and a term. Chosen by hand."""
MAX_TERMS = 16
MAX_COMPARED = 1 << 16
"""Maximum number of elements of two tensors that are compared. Chosen by hand."""
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
        value: a tensor or a number; that of `x.detach()` has no graph. `NOTHING` for a call whose
            result is not stored, and in a function that has returned, unless the term is detached.
        location: line of the sum.
        equal: names of the two tensors without a graph that the term compares, if they are equal.
    """

    code: str
    value: Any
    location: str
    equal: tuple[str, str] | None = None


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
        inner = list(_of_call(node, scope, depth)) or _of_function(node, None, scope, depth)
        yield from inner or [_summand(node, NOTHING, scope)]
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
    if isinstance(factor, ast.BinOp) and _is_of_numbers(factor, scope):
        return not isinstance(term, ast.Constant)
    weight = _value(factor, scope)
    if is_number(weight) and not isinstance(weight, torch.Tensor):
        return not isinstance(term, ast.Constant)
    is_weight = isinstance(factor, ast.Call) or isinstance(weight, torch.Tensor)
    is_sum = isinstance(term, ast.BinOp) and not _is_of_numbers(term, scope)
    trains = is_sum or _has_graph(_value(term, scope))
    return is_weight and not _has_graph(weight) and trains


def _is_of_numbers(node: ast.expr, scope: AnyScope) -> bool:
    """Return whether an expression is arithmetic with numbers, such as `temperature**2`."""
    if isinstance(node, ast.BinOp):
        return _is_of_numbers(node.left, scope) and _is_of_numbers(node.right, scope)
    if isinstance(node, ast.Constant):
        return is_number(node.value)
    if not isinstance(node, ast.Name | ast.Attribute):
        return False
    value = _value(node, scope)
    return is_number(value) and not isinstance(value, torch.Tensor)


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
                yield _summand(node, value.detach(), scope)
        elif function.attr in _SAME_TERMS:
            of_torch = _value(owner, scope) is torch and node.args  # `torch.mean(x)`
            yield from _terms(node.args[0] if of_torch else owner, scope, depth - 1)
        elif function.attr in _PASSES and node.args:
            yield from _terms(node.args[0], scope, depth - 1)


def _of_name(node: ast.expr, scope: AnyScope, depth: int) -> Iterator[Summand]:
    definition = scope.definition(ast.unparse(node))
    inner: list[Summand] = []
    if definition is not None and definition.value is not None:
        written, place = definition.value, definition.place
        if place is None and _is_sum(written):
            inner = list(_terms(written, definition.scope, depth - 1))
        elif isinstance(written, ast.Call):
            inner = _of_function(written, place, definition.scope, depth)
    value = _value(node, scope)
    if inner:
        yield from inner
    elif is_number(value) or (value is NOTHING and isinstance(scope, LocalScope)):
        yield _summand(node, value, scope)


def _summand(node: ast.expr, value: Any, scope: AnyScope) -> Summand:
    """Return a term. Values of a function that has returned were computed again, without graphs."""
    if isinstance(scope, LocalScope) and not _is_detached(node, scope):
        value = NOTHING
    equal = None if value is NOTHING or _has_graph(value) else _equal_operands(node, scope)
    return Summand(ast.unparse(node), value, scope.location(node), equal)


def _equal_operands(node: ast.expr, scope: AnyScope) -> tuple[str, str] | None:
    """Return the names of the operands of a call that defined a term, if they are equal tensors."""
    definition = scope.definition(ast.unparse(node))
    written = definition.value if definition is not None and definition.place is None else None
    if definition is None or not isinstance(written, ast.Call) or len(written.args) != 2:
        return None
    first, second = (_value(given, definition.scope) for given in written.args)
    if not isinstance(first, torch.Tensor) or not isinstance(second, torch.Tensor):
        return None
    if not all(is_plain(one) and 1 < one.numel() <= MAX_COMPARED for one in (first, second)):
        return None
    if first.requires_grad or second.requires_grad or not torch.equal(first, second):
        return None
    return ast.unparse(written.args[0]), ast.unparse(written.args[1])


def _of_function(node: ast.Call, place: int | None, scope: AnyScope, depth: int) -> list[Summand]:
    """Return the terms of a sum, or of a part of a tuple, that a function of the script returned.

    Empty if none of them is detached: what the others train is unknown.
    """
    evaluator, bodies = Evaluator({}, lambda *_: NOTHING), Bodies()
    body = bodies.of(_value(node.func, scope), node, scope, evaluator)
    evaluator.forget()
    bodies.forget()
    if body is None or body.result is None:
        return []
    returned, inside = body.result
    if place is not None:
        parts = returned.elts if isinstance(returned, ast.Tuple) else []
        if place >= len(parts):
            return []
        returned = parts[place]
    found = list(_terms(returned, inside, depth - 1)) if _is_sum(returned) else []
    return found if any(one.value is not NOTHING for one in found) else []


def _is_detached(node: ast.expr, scope: AnyScope) -> bool:
    """Return whether a term depends on a tensor with a graph, but not through its graph."""
    return _has_path(node, scope, MAX_DEPTH, through_cuts=True) and not _has_path(
        node, scope, MAX_DEPTH, through_cuts=False
    )


def _has_path(node: ast.AST, scope: AnyScope, depth: int, *, through_cuts: bool) -> bool:
    """Return whether an expression depends on a tensor with a graph.

    If that is unknown, the result is the one with which the term does not count as detached.
    """
    unknown = not through_cuts
    if not depth:
        return unknown
    if isinstance(node, ast.Name) and isinstance(scope, LocalScope):
        definition = scope.definition(node.id)
        if definition is not None and definition.value is not None:
            node, scope = definition.value, definition.scope
            return _has_path(node, scope, depth - 1, through_cuts=through_cuts)
    if isinstance(node, ast.Name | ast.Attribute):
        value = _value(node, scope)
        if isinstance(value, torch.Tensor) or isinstance(node, ast.Name):
            return unknown if value is NOTHING else _has_graph(value)
    if not through_cuts and _is_cut(node):
        return False
    parts = list(ast.iter_child_nodes(node))
    if isinstance(node, ast.Call):
        parts = [*node.args, *node.keywords]
        if isinstance(node.func, ast.Attribute):
            parts.append(node.func.value)
    return any(_has_path(part, scope, depth - 1, through_cuts=through_cuts) for part in parts)


def _is_cut(node: ast.AST) -> bool:
    """Return whether an expression is without the graph of its parts."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        return node.func.attr in _CUTS
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        return node.func.id == "float"
    return isinstance(node, ast.Attribute) and node.attr == "data"


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
