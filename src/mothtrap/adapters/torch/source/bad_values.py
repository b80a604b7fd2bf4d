"""Find the operation in the user's source that turned finite values into NaN or infinity.

The search goes from a non-finite expression to its non-finite operand, through assignments,
arguments and functions, until all operands of an operation are finite. Values are read from
variables, from the outputs of modules, or computed again. Nothing is assumed: if a decisive value
is unknown, nothing is found.
"""

from __future__ import annotations

import ast
import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from types import FrameType, FunctionType, MethodType
from typing import Any

import numpy as np
import torch
from torch import nn

from mothtrap.adapters.torch.source import bodies
from mothtrap.adapters.torch.source.evaluation import LIBRARIES, Evaluator, Scope, is_array
from mothtrap.adapters.torch.source.names import NOTHING
from mothtrap.adapters.torch.source.scopes import AnyScope, Definition, FrameScope
from mothtrap.statistics.torch.in_place import as_array
from mothtrap.tracing.source import frames

MAX_DEPTH = 60
"""Maximum number of expressions and statements between a loss and its cause. Chosen by hand."""
_PLACING = frozenset(["masked_fill", "where", "full", "full_like", "tensor", "triu", "tril"])
"""Operations that write a given infinity into a tensor."""


@dataclass(frozen=True, slots=True)
class BadValue:
    """The first non-finite value.

    Attributes:
        node: the expression; its operands are finite, or it is an input.
        scope: scope of the expression.
        operands: operands of the operation, by source text, with their values.
        value: its value, or `NOTHING` if it is not finite but otherwise unknown.
        given: no operation of the source produced it; a loader or another file did.
        deliberate: an explicitly written infinity.
        callee: called object, or `NOTHING`.
    """

    node: ast.expr
    scope: AnyScope
    operands: tuple[tuple[str, Any], ...] = ()
    value: Any = NOTHING
    given: bool = False
    deliberate: bool = False
    callee: Any = NOTHING

    @property
    def code(self) -> str:
        """Return the source text of the expression."""
        return ast.unparse(self.node)

    @property
    def location(self) -> str:
        """Line of the expression."""
        return self.scope.location(self.node)


class BadValueSearch:
    """Searches the source for the origin of a non-finite value.

    Args:
        outputs: modules with their outputs in the latest forward pass.
    """

    def __init__(self, outputs: Iterable[tuple[nn.Module | None, torch.Tensor | None]]) -> None:
        once: dict[int, torch.Tensor | None] = {}
        for module, output in outputs:
            if module is not None:
                once[id(module)] = None if id(module) in once else output
        known = {key: output for key, output in once.items() if output is not None}
        self._bodies = bodies.Bodies()
        self._evaluator = Evaluator(known, self._returned)

    def in_call(self, call: ast.Call, frame: FrameType) -> BadValue | None:
        """Return the origin of a non-finite argument of a call.

        Args:
            call: such as `loss.backward()`, or one that raised an exception.
            frame: frame of the function in which it is written.
        """
        scope = self.scope(call, frame)
        with warnings.catch_warnings():
            # such warnings were already issued when the user's code ran
            warnings.simplefilter("ignore")
            found = [
                self._search(node, scope, sure=False, depth=MAX_DEPTH)
                for node in self.arguments(call)
            ]
        self.forget()
        return next((one for one in found if one is not None and not one.deliberate), None)

    def forget(self) -> None:
        """Release the script's values."""
        self._evaluator.forget()
        self._bodies.forget()

    def scope(self, call: ast.Call, frame: FrameType) -> FrameScope:
        """Return the names of a function at the time of its call."""
        return FrameScope(frame, call.lineno, self._evaluator.value)

    @staticmethod
    def arguments(call: ast.Call) -> list[ast.expr]:
        """Return the object whose method is called, and the arguments."""
        function = call.func
        owner = [function.value] if isinstance(function, ast.Attribute) else []
        return [*owner, *call.args, *(keyword.value for keyword in call.keywords)]

    def value(self, node: ast.AST, scope: Scope) -> Any:
        """Return the value of an expression, or `NOTHING`."""
        return self._evaluator.value(node, scope)

    def _returned(self, call: ast.Call, scope: Scope, callee: Any) -> Any:
        """Return the value that a user function returns, computed from its statements."""
        body = self._bodies.of(callee, call, scope, self._evaluator)
        return body.returned if body is not None else NOTHING

    def _search(
        self, node: ast.expr, scope: AnyScope, *, sure: bool, depth: int
    ) -> BadValue | None:
        value = self._evaluator.value(node, scope)
        finite = is_finite(value)
        if finite is True or not depth:
            return None
        sure = sure or finite is False
        if isinstance(node, ast.Name | ast.Attribute):
            definition = scope.definition(ast.unparse(node))
            if definition is not None:
                return self._defined(node, scope, definition, value, sure=sure, depth=depth)
        if isinstance(node, ast.Name):
            return BadValue(node, scope, value=value, given=True) if finite is False else None
        found = self._operation(node, scope, value, sure=sure, depth=depth)
        if found is None and finite is False and self._is_kept(node, scope):
            return BadValue(node, scope, value=value, given=True)
        return found

    def _is_kept(self, node: ast.expr, scope: AnyScope) -> bool:
        """Return whether an expression reads a stored value of an object or a collection."""
        if not isinstance(node, ast.Attribute | ast.Subscript):
            return False
        return not is_array(self._evaluator.value(node.value, scope)) and not _is_literal(node)

    def _defined(
        self,
        node: ast.expr,
        scope: AnyScope,
        definition: Definition,
        value: Any,
        *,
        sure: bool,
        depth: int,
    ) -> BadValue | None:
        """Continue with the statement that assigned a name."""
        expression = definition.value
        if expression is None:
            given = BadValue(node, scope, value=value, given=True)
            return given if is_finite(value) is False and not definition.in_place else None
        written = self._evaluator.value(expression, definition.scope)
        if definition.in_place and isinstance(written, float) and is_finite(written) is False:
            return BadValue(node, definition.scope, value=value, given=True)  # `y[3] = nan`
        again = written
        if definition.place is None and agree(again, value) is False:
            again = NOTHING  # one of its operands has changed since
        if is_finite(again) is None and (spread := self._of_one(expression, definition, value)):
            return spread
        if again is not written:
            return None
        found = self._search(expression, definition.scope, sure=sure, depth=depth - 1)
        if definition.in_place:  # the value before it cannot be derived from the input
            return None if found is not None and found.given else found
        if found is None and again is NOTHING and _is_data(value):
            return BadValue(node, definition.scope, value=value, given=True)
        return found

    def _of_one(self, expression: ast.expr, definition: Definition, value: Any) -> BadValue | None:
        """Return the deviation of a single value in arithmetic whose operands no longer exist.

        If the result has one value, its operands had one value, too, in arithmetic such as `(x -
        x.mean()) / x.std()`.
        """
        if not is_array(value) or value.ndim != 1 or len(value) != 1:
            return None
        body = self.body(expression, definition.scope)
        written = [expression]
        if body is not None and body.result is not None:
            written = [body.result[0], *(statement for statement, _, _ in body.statements)]
        scope = body.result[1] if body is not None and body.result is not None else definition.scope
        calls = [call for one in written for call in ast.walk(one) if spread_of(call) is not None]
        arithmetic = (part for part in ast.walk(written[0]) if isinstance(part, ast.BinOp))
        used = {ast.unparse(side) for part in arithmetic for side in (part.left, part.right)}
        if len(calls) != 1 or not isinstance(calls[0], ast.Call):
            return None
        of = ast.unparse(spread_of(calls[0]) or calls[0])
        return BadValue(calls[0], scope, ((of, NOTHING),)) if of in used else None

    def body(self, node: ast.expr, scope: AnyScope) -> bodies.Body | None:
        """Return the evaluated statements of the function that an expression calls."""
        if not isinstance(node, ast.Call):
            return None
        callee = self._evaluator.value(node.func, scope)
        return self._bodies.of(callee, node, scope, self._evaluator)

    def _operation(
        self, node: ast.expr, scope: AnyScope, value: Any, *, sure: bool, depth: int
    ) -> BadValue | None:
        """Continue with the non-finite operand, or stop at the operation itself."""
        operands = [
            (part, self._evaluator.value(part, scope)) for part in self.operands(node, scope)
        ]
        for part, given in operands:
            if is_finite(given) is False and not _is_literal(part):
                if _takes_masks(node) and _is_mask(given) and _has_nan(value):
                    break
                found = self._search(part, scope, sure=True, depth=depth - 1)
                if found is not None and found.deliberate and _has_nan(value):
                    break
                return found
        else:
            inside = self._inside(node, scope, sure=sure, depth=depth)
            if inside is not None:
                return inside
            unknown = [part for part, given in operands if _may_hold_values(given)]
            for part in unknown:
                found = self._search(part, scope, sure=False, depth=depth - 1)
                if found is not None:
                    return found
            if unknown or not sure or not _is_operation(node):
                return None
        if self._is_unknown_call(node, scope) or not any(is_array(given) for _, given in operands):
            return None
        named = {ast.unparse(part): given for part, given in operands if is_array(given)}
        shown = tuple(named.items())
        callee = self._evaluator.value(node.func, scope) if isinstance(node, ast.Call) else NOTHING
        deliberate = _is_deliberate(node, value)
        return BadValue(node, scope, shown, value, deliberate=deliberate, callee=callee)

    def operands(self, node: ast.expr, scope: AnyScope) -> list[ast.expr]:
        """Return the expressions from which an expression is computed."""
        if isinstance(node, ast.BinOp):
            return [node.left, node.right]
        if isinstance(node, ast.UnaryOp):
            return [node.operand]
        if isinstance(node, ast.Subscript | ast.Attribute | ast.Starred | ast.NamedExpr):
            return [node.value]
        if isinstance(node, ast.Tuple | ast.List | ast.Set):
            return list(node.elts)
        if isinstance(node, ast.Dict):
            return list(node.values)
        if isinstance(node, ast.IfExp):
            test = self._evaluator.value(node.test, scope)
            return [node.body if test else node.orelse] if isinstance(test, bool) else []
        if not isinstance(node, ast.Call):
            return []
        given = [*node.args, *(keyword.value for keyword in node.keywords)]
        function = node.func
        if isinstance(function, ast.Attribute):
            owner = self._evaluator.value(function.value, scope)
            if not any(owner is library for library in LIBRARIES) and not isinstance(
                owner, nn.Module
            ):
                return [function.value, *given]
        callee = self._evaluator.value(function, scope)
        return [function, *given] if _holds_bad(callee) else given

    def _inside(
        self, node: ast.expr, scope: AnyScope, *, sure: bool, depth: int
    ) -> BadValue | None:
        """Continue inside a user function or module, at its first bad statement."""
        body = self.body(node, scope)
        if body is None:
            return None
        for expression, inner, value in body.statements:
            if is_finite(value) is False:
                found = self._search(expression, inner, sure=True, depth=depth - 1)
                if found is None or not found.deliberate:
                    return found
        if body.result is None:
            return None
        return self._search(*body.result, sure=sure, depth=depth - 1)

    def _is_unknown_call(self, node: ast.expr, scope: AnyScope) -> bool:
        """Return whether the result of a call may depend on more than its arguments."""
        if not isinstance(node, ast.Call):
            return False
        callee = self._evaluator.value(node.func, scope)
        if isinstance(callee, nn.Module):
            own = type(callee).__module__.startswith("torch.nn.")
            return not own or any(is_finite(one) is False for one in callee.parameters())
        if isinstance(callee, FunctionType | MethodType):
            return frames.is_users_file(callee.__code__.co_filename)
        return callee is NOTHING and isinstance(node.func, ast.Name)


def is_finite(value: Any) -> bool | None:
    """Return whether all numbers are finite; None if a value has no readable numbers."""
    if isinstance(value, float):
        return bool(np.isfinite(value))
    if _holds_bad(value):
        return False
    if type(value) in (tuple, list):
        parts = [is_finite(part) for part in value[:4096]]
        return False if False in parts else None
    if not is_array(value):
        return None
    if isinstance(value, torch.Tensor):
        floating = value.is_floating_point() or value.is_complex()
        return bool(torch.isfinite(value.detach()).all()) if floating else True
    return bool(np.isfinite(value).all()) if value.dtype.kind in "fc" else True


def agree(again: Any, stored: Any) -> bool | None:
    """Return whether a recomputed value equals the stored one; None if one is unknown."""
    if not is_array(again) or not is_array(stored):
        return None
    if tuple(again.shape) != tuple(stored.shape):
        return False
    one, other = (np.asarray(_on_host(value), dtype=np.float64) for value in (again, stored))
    return bool(np.allclose(one, other, rtol=1e-3, atol=1e-5, equal_nan=True))


def _on_host(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return as_array(value.detach().double().cpu())
    return value


def _has_nan(value: Any) -> bool:
    if value is NOTHING:
        return True
    if not is_array(value):
        return False
    host = _on_host(value)
    return bool(np.isnan(host).any())


def _may_hold_values(value: Any) -> bool:
    """Return whether an operand may contain non-finite numbers, as far as is known."""
    if isinstance(value, bool | int | float | str | type(None) | nn.Module | torch.Size):
        return False
    if isinstance(value, torch.dtype | torch.device | slice | range | torch.optim.Optimizer):
        return False
    return is_finite(value) is not True and not callable(value)


def _is_data(value: Any) -> bool:
    """Return whether a non-finite value was not computed by the model."""
    if not is_array(value) or is_finite(value) is not False:
        return False
    return not isinstance(value, torch.Tensor) or not value.requires_grad


def _is_deliberate(node: ast.expr, value: Any) -> bool:
    name = called_name(node)
    return name.rstrip("_") in _PLACING and not _has_nan(value)


def _holds_bad(callee: Any) -> bool:
    """Return whether a loss module has class weights that are not finite."""
    if not isinstance(callee, nn.modules.loss._Loss):
        return False
    return any(is_finite(buffer) is False for buffer in callee.buffers())


def _takes_masks(node: ast.expr) -> bool:
    """Return whether an operation receives -inf on purpose."""
    name = called_name(node)
    return any(word in name for word in ("softmax", "logsumexp", "attention"))


def _is_mask(value: Any) -> bool:
    """Return whether all non-finite values in an array are -inf."""
    host = _on_host(value) if is_array(value) else None
    if host is None:
        return False
    return not bool(np.isnan(host).any()) and not bool(np.isposinf(host).any())


def called_name(node: ast.expr) -> str:
    """Return the last part of a called name; empty for other expressions."""
    called = node.func if isinstance(node, ast.Call) else None
    return called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")


def _is_literal(node: ast.expr) -> bool:
    """Return whether a number is a literal: `float("-inf")`, `-torch.inf`, `np.nan`."""
    if isinstance(node, ast.UnaryOp):
        return _is_literal(node.operand)
    if isinstance(node, ast.Call):
        converts = isinstance(node.func, ast.Name) and node.func.id == "float"
        return converts and all(isinstance(part, ast.Constant) for part in node.args)
    named = isinstance(node, ast.Attribute) and node.attr in ("inf", "nan")
    return named or isinstance(node, ast.Constant)


def spread_of(node: ast.AST) -> ast.expr | None:
    """Return the input of a standard deviation or variance; None for other nodes."""
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return None
    if node.func.attr not in ("std", "var"):
        return None
    library = isinstance(node.func.value, ast.Name) and node.func.value.id in ("torch", "np")
    if library:
        return node.args[0] if len(node.args) == 1 and not node.keywords else None
    return node.func.value if not node.args and not node.keywords else None


def _is_operation(node: ast.expr) -> bool:
    return isinstance(node, ast.BinOp | ast.Call | ast.UnaryOp)
