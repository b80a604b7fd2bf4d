"""Divide the loss by the number of accumulated micro-batches."""

from __future__ import annotations

import libcst as cst

from mothtrap.core.findings import Finding
from mothtrap.repairs.script import NoCertainRepairError, Script, code, loops_around, only


def repair(script: Script, finding: Finding) -> str:
    """Return the source with `(loss / n).backward()`.

    `n` is the number after `%` in the condition of the optimizer step. Only if it is a name, or the
    number of micro-batches that the finding counted.
    """
    if finding.evidence.get("sums_rows"):
        raise NoCertainRepairError("the loss is a sum over rows: use its mean instead")
    backward = only(script.calls("backward"), "call to backward()")
    if not isinstance(backward.func, cst.Attribute) or backward.args:
        raise NoCertainRepairError("backward is not called as `loss.backward()`")
    loops = loops_around(script, backward)
    rests = [
        one
        for one in script.every(cst.BinaryOperation)
        if isinstance(one.operator, cst.Modulo)
        and isinstance(one.right, cst.Name | cst.Integer | cst.Attribute)
        and loops_around(script, one)[:1] == loops[:1]
        and any(isinstance(parent, cst.If) for parent in script.parents(one))
    ]
    number = only(sorted({code(one.right) for one in rests}), "number of micro-batches")
    if number.isdigit() and int(number) != finding.evidence.get("micro_batches"):
        raise NoCertainRepairError(f"the loop counts {number} micro-batches, unlike the finding")
    loss = code(backward.func.value)
    if "/" in loss:
        raise NoCertainRepairError("the loss is already divided")
    divided = cst.parse_expression(f"({loss} / {number}).backward")
    return script.replaced(backward.func, divided)
