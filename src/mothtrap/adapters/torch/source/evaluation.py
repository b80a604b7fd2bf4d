"""Evaluate the user's expressions again, using only operations without side effects.

Only arithmetic and a fixed set of torch and NumPy operations are evaluated, on plain tensors and
arrays without subclasses. No user code runs, no random number is drawn, and nothing is written.
Outputs of modules were kept during the latest forward pass.
"""

from __future__ import annotations

import ast
import builtins
import math
import operator
from collections.abc import Callable, Mapping
from types import FunctionType, MethodType, ModuleType
from typing import Any, Protocol

import numpy as np
import torch
from torch import nn

from mothtrap.adapters.torch.job.readable import is_plain
from mothtrap.adapters.torch.source.names import NOTHING, attribute_of

MAX_ELEMENTS = 1 << 22
"""Maximum number of elements of a tensor in a computation. Chosen by hand: a few milliseconds."""
MAX_OPERATIONS = 2_000
"""Maximum number of operations in one search. Chosen by hand."""
LIBRARIES: tuple[ModuleType, ...] = (
    *(torch, nn.functional, torch.linalg, torch.special, np, np.linalg, math),
)
_PURE = """
abs absolute acos acosh add addcdiv addcmul all amax amin aminmax angle any arange arccos
arcsin arctan argmax argmin argsort array as_tensor asarray asin asinh astype atan atan2
atanh baddbmm binary_cross_entropy binary_cross_entropy_with_logits bincount bmm broadcast_to
cat ceil chunk clamp clamp_max clamp_min clip clone
concat concatenate contiguous copy cos cosh cosine_similarity cov cpu cross cross_entropy
cumprod cumsum data det detach diag diagonal diff dim div divide dot double einsum elu eq
erf erfinv exp expand expand_as expm1 eye flatten flip float floor floor_divide frac
from_numpy full full_like gather ge gelu gt half hardtanh index_select inner int isfinite
isinf isnan item kl_div kron l1_loss le leaky_relu lerp lgamma linspace log log10 log1p log2
log_softmax logaddexp logdet logical_and logical_not logical_or logit logsigmoid logsumexp
long lt masked_fill masked_select matmul max maximum mean median min minimum mm moveaxis
movedim mse_loss mul multiply mv nan_to_num nanmean narrow ne neg negative new_full new_ones
new_tensor new_zeros nll_loss norm normalize numel numpy one_hot ones ones_like outer
permute pow power prod ptp ravel reciprocal relu remainder repeat repeat_interleave reshape
roll round rsqrt scatter select sigmoid sign silu sin sinh size slogdet smooth_l1_loss
softmax softmin softplus sort split sqrt square squeeze stack std std_mean sub subtract sum
swapaxes t tan tanh tensor tensordot tile to tolist topk transpose tril triu true_divide
trunc type unbind unsqueeze var var_mean vector_norm view view_as where xlogy zeros
zeros_like
"""
PURE = frozenset(_PURE.split())
"""Functions and methods of torch and NumPy that draw no random numbers and write nothing."""
_TENSOR_ATTRIBUTES = frozenset(
    ["shape", "T", "mT", "H", "ndim", "dtype", "device", "data", "real", "imag", "size"]
)
_BUILTINS = frozenset(["len", "int", "float", "abs", "min", "max", "sum", "range", "list", "tuple"])
_OPERATORS: Mapping[type[ast.AST], Callable[..., Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
    ast.MatMult: operator.matmul,
    ast.BitAnd: operator.and_,
    ast.BitOr: operator.or_,
    ast.USub: operator.neg,
    ast.UAdd: operator.pos,
    ast.Invert: operator.invert,
    ast.Not: operator.not_,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Is: operator.is_,
    ast.IsNot: operator.is_not,
}
_LAST_PARTS: Mapping[type[nn.Module], Callable[[Any], nn.Module | None]] = {
    nn.Sequential: lambda module: module[-1] if len(module) else None,
    nn.TransformerEncoder: lambda module: module.norm or module.layers[-1],
    nn.TransformerDecoder: lambda module: module.norm or module.layers[-1],
    nn.TransformerEncoderLayer: lambda layer: None if layer.norm_first else layer.norm2,
    nn.TransformerDecoderLayer: lambda layer: None if layer.norm_first else layer.norm3,
}
"""Modules of torch that return the output of the last submodule that they call."""
_PLAIN = (bool, int, float, str, type(None), torch.dtype, torch.device, torch.Size, slice, range)


class Scope(Protocol):
    """Names and their values at a point in the program."""

    def lookup(self, name: str) -> Any:
        """Return the value of a name or dotted name, or `NOTHING`."""


class Evaluator:
    """Evaluates expressions, each at most once in a scope.

    Args:
        outputs: outputs of modules, by identity, for modules that were called once.
        user_call: evaluates the call to a user function or module.
    """

    def __init__(
        self,
        outputs: Mapping[int, torch.Tensor],
        user_call: Callable[[ast.Call, Scope, Any], Any],
    ) -> None:
        self._outputs, self._user_call = outputs, user_call
        self._left = MAX_OPERATIONS
        self._done: dict[tuple[int, int], tuple[Any, Any, Any]] = {}

    def value(self, node: ast.AST, scope: Scope) -> Any:
        """Return the value of an expression, or `NOTHING` if unknown."""
        key = id(node), id(scope)
        if key not in self._done:
            self._left -= 1
            found = NOTHING
            if self._left > 0:
                try:
                    found = self._evaluate(node, scope)
                except Exception:  # an operation may raise anything
                    found = NOTHING
            # kept alive, because another object could get the same id
            self._done[key] = found, node, scope
        return self._done[key][0]

    def forget(self) -> None:
        """Release all values, which reference cycles would otherwise keep alive."""
        self._done.clear()

    def _evaluate(self, node: ast.AST, scope: Scope) -> Any:
        if isinstance(node, ast.Constant):
            return node.value
        if isinstance(node, ast.Name):
            return scope.lookup(node.id)
        if isinstance(node, ast.Attribute):
            return self._attribute(node, scope)
        if isinstance(node, ast.Call):
            return self._call(node, scope)
        if isinstance(node, ast.Tuple | ast.List):
            parts = [self.value(part, scope) for part in node.elts]
            return NOTHING if NOTHING in _ByIdentity(parts) else type_of(node)(parts)
        if isinstance(node, ast.IfExp):
            chosen = self.value(node.test, scope)
            plain = isinstance(chosen, bool | int | float | str | type(None))
            return self.value(node.body if chosen else node.orelse, scope) if plain else NOTHING
        if isinstance(node, ast.Slice):
            return slice(*(self._part(part, scope) for part in (node.lower, node.upper, node.step)))
        if isinstance(node, ast.Subscript):
            if self._is_one_of_several(node.value, scope):
                return NOTHING
            return self._item(self.value(node.value, scope), self.value(node.slice, scope))
        if isinstance(node, ast.BinOp):
            left, right = self.value(node.left, scope), self.value(node.right, scope)
            return self._calculate(_OPERATORS[type(node.op)], left, right)
        if isinstance(node, ast.UnaryOp):
            return self._calculate(_OPERATORS[type(node.op)], self.value(node.operand, scope))
        if isinstance(node, ast.Compare) and len(node.ops) == 1:
            left, right = self.value(node.left, scope), self.value(node.comparators[0], scope)
            return self._calculate(_OPERATORS[type(node.ops[0])], left, right)
        return NOTHING

    def _is_one_of_several(self, node: ast.expr, scope: Scope) -> bool:
        """Return whether an expression takes an item of a module's output, which was not kept."""
        if not isinstance(node, ast.Call):
            return False
        callee = self.value(node.func, scope)
        return isinstance(callee, nn.Module) and id(callee) in self._outputs

    def _item(self, owner: Any, key: Any) -> Any:
        if type(owner) is dict:
            return owner.get(key, NOTHING) if isinstance(key, str | int) else NOTHING
        if type(owner) in (list, tuple) and type(key) is int:
            return owner[key] if -len(owner) <= key < len(owner) else NOTHING
        return self._calculate(operator.getitem, owner, key)

    def _part(self, node: ast.expr | None, scope: Scope) -> Any:
        return None if node is None else self.value(node, scope)

    def _attribute(self, node: ast.Attribute, scope: Scope) -> Any:
        stored = scope.lookup(ast.unparse(node))
        if stored is not NOTHING:
            return stored
        owner = self.value(node.value, scope)
        if is_array(owner):
            return getattr(owner, node.attr) if node.attr in _TENSOR_ATTRIBUTES else NOTHING
        found = attribute_of(owner, node.attr) if owner is not NOTHING else NOTHING
        return _method(owner, node.attr) if found is NOTHING and owner is not NOTHING else found

    def _call(self, node: ast.Call, scope: Scope) -> Any:
        operation = self._pure(node.func, scope)
        if operation is not None:
            return self._calculate(operation, *self._given(node, scope), **self._named(node, scope))
        callee = self.value(node.func, scope)
        if isinstance(callee, nn.Module):
            kept = self._kept(callee)
            return kept if kept is not None else self._user_call(node, scope, callee)
        if isinstance(callee, FunctionType | MethodType):
            return self._user_call(node, scope, callee)
        return NOTHING

    def _kept(self, module: nn.Module) -> torch.Tensor | None:
        """Return the output of a module, which may be the output of one of its parts."""
        part: nn.Module | None = module
        while part is not None and id(part) not in self._outputs:
            last = _LAST_PARTS.get(type(part))
            part = last(part) if last is not None else None
        return self._outputs[id(part)] if part is not None else None

    def _pure(self, function: ast.expr, scope: Scope) -> Callable[..., Any] | None:
        """Return the called operation if it has no side effects and draws no random numbers."""
        if isinstance(function, ast.Attribute):
            owner = self.value(function.value, scope)
            if is_array(owner) or owner in _ByIdentity(LIBRARIES):
                found = getattr(owner, function.attr) if function.attr in PURE else None
                return found if callable(found) else None
        callee = self.value(function, scope)
        if isinstance(function, ast.Name) and function.id in _BUILTINS:
            built_in = getattr(builtins, function.id)
            return built_in if callee in _ByIdentity([NOTHING, built_in]) else None
        name = getattr(callee, "__name__", "")
        own = any(vars(library).get(name) is callee for library in LIBRARIES)
        return callee if name in PURE and own and callable(callee) else None

    def _given(self, node: ast.Call, scope: Scope) -> list[Any]:
        given: list[Any] = []
        for part in node.args:
            if isinstance(part, ast.Starred):
                given.extend(self.value(part.value, scope))
            else:
                given.append(self.value(part, scope))
        return given

    def _named(self, node: ast.Call, scope: Scope) -> dict[str, Any]:
        return {str(k.arg): self.value(k.value, scope) for k in node.keywords}

    def _calculate(self, operation: Callable[..., Any], *given: Any, **named: Any) -> Any:
        """Run an operation on values of plain types only."""
        if not all(_is_allowed(value) for value in (*given, *named.values())):
            return NOTHING
        with torch.no_grad(), np.errstate(all="ignore"):
            return operation(*(_detached(v) for v in given), **named)


def is_array(value: Any) -> bool:
    """Return whether a value is exactly of the library's tensor or array type."""
    if type(value) in (torch.Tensor, nn.Parameter):
        return is_plain(value) and value.numel() <= MAX_ELEMENTS
    return (
        type(value) is np.ndarray or isinstance(value, np.generic)
    ) and value.size <= MAX_ELEMENTS


def _is_allowed(value: Any) -> bool:
    if type(value) in (list, tuple):
        return len(value) <= MAX_ELEMENTS and all(_is_allowed(part) for part in value[:4096])
    return is_array(value) or isinstance(value, _PLAIN) or value is Ellipsis


def _detached(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return value.detach()
    if type(value) in (list, tuple):
        return type(value)(_detached(part) for part in value)
    return value


def _method(owner: Any, name: str) -> Any:
    """Return a method that the class of an object defines as a plain function."""
    for cls in type(owner).__mro__:
        found = cls.__dict__.get(name)
        if isinstance(found, staticmethod):
            return found.__func__
        if isinstance(found, FunctionType):
            return MethodType(found, owner)
        if found is not None:
            return NOTHING
    return NOTHING


def type_of(node: ast.Tuple | ast.List) -> type[tuple[Any, ...]] | type[list[Any]]:
    """Return the type that a literal display creates."""
    return tuple if isinstance(node, ast.Tuple) else list


class _ByIdentity:
    """Compares by identity, since tensors compare element by element."""

    def __init__(self, values: Any) -> None:
        self._values = values

    def __contains__(self, wanted: object) -> bool:
        return any(value is wanted for value in self._values)
