"""Start the biases before dead units at 0."""

from __future__ import annotations

import libcst as cst

from mothtrap.core.findings import Finding
from mothtrap.repairs._optimizers import is_number
from mothtrap.repairs.script import (
    NoCertainRepairError,
    Script,
    code,
    function_around,
    last_name,
    loops_around,
    only,
    owner,
)

ANYWHERE = True

FAR_BELOW = 1.0
"""Distance of a bias below 0 from which it can keep units from ever being active. Chosen by hand:
inputs of unit variance and usual initial weights give outputs of about this size.
"""


def repair(script: Script, finding: Finding) -> str:
    """Return the source with a bias of 0 instead of a constant far below it.

    Only if the units were dead from the first step on, and one call of the file fills the biases of
    all layers, or of the layer before a dead layer, with a constant of at most -`FAR_BELOW`.
    """
    if finding.step:
        raise NoCertainRepairError("the units died during training; decide how to train slower")
    filled = [
        number
        for call in script.every(cst.Call)
        if (number := _far_below(call)) is not None and _feeds(script, call, finding.layers)
    ]
    number = only(filled, "bias far below 0 in front of the dead units")
    return script.replaced(number, cst.Float("0.0"))


def _far_below(call: cst.Call) -> cst.BaseExpression | None:
    """Return the constant that a call fills with, if it is a number far below 0."""
    value = call.args[-1].value if call.args else None
    if last_name(call.func) not in ("constant_", "fill_") or not isinstance(
        value, cst.UnaryOperation
    ):
        return None
    negative = isinstance(value.operator, cst.Minus) and is_number(value.expression)
    return value if negative and float(code(value.expression)) >= FAR_BELOW else None


def _feeds(script: Script, call: cst.Call, dead: tuple[str, ...]) -> bool:
    """Return whether a call fills the biases of all layers, or of a layer before a dead layer."""
    target = owner(call) if last_name(call.func) == "fill_" else call.args[0].value
    if isinstance(target, cst.Attribute) and target.attr.value == "data":
        target = target.value
    if not isinstance(target, cst.Attribute) or target.attr.value != "bias":
        return False
    layer = target.value
    if isinstance(layer, cst.Name):
        return _is_any_layer(script, call, layer.value)
    number = code(layer.slice[0].slice) if isinstance(layer, cst.Subscript) else ""
    return number.isdigit() and any(
        last in (str(int(number) + 1), str(int(number) + 2))
        for name in dead
        if (last := name.rpartition(".")[2])
    )


def _is_any_layer(script: Script, call: cst.Call, name: str) -> bool:
    """Return whether a name is the variable of a loop over layers, or the argument of `apply`."""
    if any(
        isinstance(loop, cst.For) and code(loop.target) == name
        for loop in loops_around(script, call)
    ):
        return True
    function = function_around(script, call)
    names = [one.name.value for one in function.params.params] if function is not None else []
    return names == [name]
