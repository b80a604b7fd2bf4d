"""Updates of weights by the script itself."""

from __future__ import annotations

import libcst as cst

from mothtrap.repairs.script import (
    NoCertainRepairError,
    Script,
    bracketed,
    code,
    keyword,
    replaced_all,
)

_OPPOSITE = {"add_": "sub_", "sub_": "add_"}
_DATA = ".data"


def descending(script: Script) -> str:
    """Return the source with each update that adds a gradient changed to subtract it.

    Updates are `w += rate * w.grad`, `w = w + rate * w.grad`, and `w.add_(w.grad, alpha=rate)`,
    also of `w.data`.

    Raises:
        NoCertainRepairError: no line of the file adds the gradient of a weight to this weight.
    """
    turned = [
        pair
        for node in (
            *script.every(cst.AugAssign),
            *script.every(cst.Assign),
            *script.every(cst.Call),
        )
        if (pair := _turned(node)) is not None
    ]
    if not turned:
        raise NoCertainRepairError("no line adds the gradient of a weight to this weight")
    return replaced_all(script, turned)


def _turned(node: cst.CSTNode) -> tuple[cst.CSTNode, cst.CSTNode] | None:
    """Return the variable that an update moves along its gradient, and its corrected value."""
    if isinstance(node, cst.AugAssign) and isinstance(node.operator, cst.AddAssign):
        if _is_gradient_of(node.value, node.target) and not _is_negative(node.value):
            return node.operator, cst.SubtractAssign()
    elif isinstance(node, cst.Assign) and isinstance(node.value, cst.BinaryOperation):
        whole, target = node.value, node.targets[0].target
        adds = isinstance(whole.operator, cst.Add) and not _is_negative(whole.right)
        if adds and _name(whole.left) == _name(target) and _is_gradient_of(whole.right, target):
            return whole.operator, cst.Subtract()
    elif isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute) and node.args:
        return _turned_call(node, node.func)
    return None


def _turned_call(call: cst.Call, method: cst.Attribute) -> tuple[cst.CSTNode, cst.CSTNode] | None:
    name, alpha = method.attr.value, keyword(call, "alpha")
    if name not in _OPPOSITE or not _is_gradient_of(call.args[0].value, method.value):
        return None
    negative = _is_negative(call.args[0].value) is not (
        alpha is not None and _is_negative(alpha.value)
    )
    if (name == "add_") is negative:
        return None
    if alpha is not None and name == "add_":
        return alpha.value, cst.parse_expression(f"-{bracketed(alpha.value)}")
    return method.attr, cst.Name(_OPPOSITE[name])


def _is_gradient_of(value: cst.BaseExpression, weight: cst.BaseExpression) -> bool:
    """Return whether a value is the gradient of a weight, possibly with factors."""
    while isinstance(value, cst.BinaryOperation | cst.UnaryOperation):
        if isinstance(value, cst.UnaryOperation):
            value = value.expression
        elif not isinstance(value.operator, cst.Multiply | cst.Divide):
            return False
        else:
            value = value.right if ".grad" in code(value.right) else value.left
    return code(value).removesuffix(_DATA) == f"{_name(weight)}.grad"


def _name(weight: cst.BaseExpression) -> str:
    return code(weight).removesuffix(_DATA)


def _is_negative(value: cst.BaseExpression) -> bool:
    """Return whether a product begins with a minus."""
    while isinstance(value, cst.BinaryOperation):
        value = value.left
    return isinstance(value, cst.UnaryOperation) and isinstance(value.operator, cst.Minus)
